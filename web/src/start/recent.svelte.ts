/** The comparisons in the store, kept current while this tab is looked at. */
import { sentence, wasAborted } from "../api/client";
import type { Provider } from "../api/provider";
import type { Entry } from "../api/types";

const WHILE_RUNNING = 1500;
const OTHERWISE = 15000;

export class Recent {
  list = $state.raw<readonly Entry[] | null>(null);
  bytes = $state(0);
  error = $state<string | null>(null);
  readonly #provider: Provider;

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  async refresh(signal?: AbortSignal): Promise<void> {
    try {
      const { comparisons, bytes } = await this.#provider.comparisons(signal);
      this.list = comparisons;
      this.bytes = bytes;
      this.error = null;
    } catch (error) {
      if (!wasAborted(error)) this.error = sentence(error);
    }
  }

  /** Refreshes now, at intervals, and whenever the tab comes back; returns what ends it. */
  follow(): () => void {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const round = async (): Promise<void> => {
      clearTimeout(timer);
      if (!document.hidden) await this.refresh(stop.signal);
      const running = this.list?.some(({ state }) => state === "queued" || state === "running") ?? false;
      if (!stop.signal.aborted) timer = setTimeout(round, running ? WHILE_RUNNING : OTHERWISE);
    };
    document.addEventListener("visibilitychange", () => void round(), { signal: stop.signal });
    void round();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }

  async rename(id: string, name: string): Promise<void> {
    await this.#provider.rename(id, name);
    await this.refresh();
  }

  async remove(id: string): Promise<void> {
    await this.#provider.remove(id);
    await this.refresh();
  }
}
