/** The project that the server was started in, kept current while this tab is looked at. */
import type { Provider } from "../api/provider";
import type { Project } from "../api/types";

const INTERVAL = 2000;

export class FollowedProject {
  shown = $state.raw<Project | null>(null);
  readonly #provider: Provider;

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  /** Refreshes at intervals where there is a project; returns what ends it. */
  follow(): () => void {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const round = async (): Promise<void> => {
      clearTimeout(timer);
      try {
        if (!document.hidden) this.shown = await this.#provider.project(stop.signal);
      } catch {
        // what was shown stays; the list below says that the server does not answer
      }
      if (!stop.signal.aborted && this.shown) timer = setTimeout(() => void round(), INTERVAL);
    };
    document.addEventListener("visibilitychange", () => void round(), { signal: stop.signal });
    void round();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }
}
