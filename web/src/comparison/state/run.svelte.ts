import { ApiError, sentence, wasAborted } from "../../api/client";
import { provider } from "../../api/provider";
import type { Entry, FirstRow, Head, Progress, RowLine } from "../../api/types";

/** A comparison as the server has it: followed while it runs, read when it is done. */
export class Run {
  entry = $state.raw<Entry | null>(null);
  head = $state.raw<Head | null>(null);
  /** The first divergence of the result, in the server's words. */
  first = $state.raw<FirstRow | null>(null);
  rows = $state.raw<readonly RowLine[]>([]);
  progress = $state.raw<Progress | null>(null);
  error = $state<string | null>(null);
  gone = $state(false);
  connected = $state(true);
  /** Grows with every result, so that what was kept of an earlier one is dropped. */
  version = $state(0);

  #abort = new AbortController();
  #unwatch: (() => void) | null = null;

  readonly id: string;

  constructor(id: string) {
    this.id = id;
  }

  get busy(): boolean {
    return this.entry?.state === "queued" || this.entry?.state === "running";
  }

  async load(): Promise<void> {
    this.error = null;
    const { signal } = this.#abort;
    try {
      const { entry, comparison, first } = await provider.comparison(this.id, signal);
      const rows = comparison === null ? [] : await provider.rows(this.id, signal);
      if (comparison !== null) this.first = first;
      this.#take(entry, comparison, rows);
    } catch (error) {
      if (wasAborted(error)) return;
      this.gone = error instanceof ApiError && error.status === 404;
      this.error = sentence(error);
    }
  }

  /** After something made the server run the comparison again. */
  follow(entry: Entry): void {
    this.entry = entry;
    this.progress = entry.progress;
    this.#watch();
  }

  async cancel(): Promise<void> {
    this.entry = await provider.cancel(this.id);
  }

  async again(): Promise<void> {
    this.follow(await provider.rerun(this.id));
  }

  close(): void {
    this.#abort.abort();
    this.#unwatch?.();
  }

  #take(entry: Entry, head: Head | null, rows: readonly RowLine[]): void {
    this.entry = entry;
    this.progress = entry.progress;
    if (head !== null) {
      this.head = head;
      this.rows = rows;
      this.version += 1;
    }
    if (this.busy) this.#watch();
  }

  #watch(): void {
    this.#unwatch?.();
    const stop = provider.watch(this.id, {
      state: (entry) => {
        this.entry = entry;
        this.progress = entry.progress;
        if (this.busy) return;
        stop();
        void this.load();
      },
      progress: (progress) => (this.progress = progress),
      connected: (up) => (this.connected = up),
    });
    this.#unwatch = stop;
  }
}
