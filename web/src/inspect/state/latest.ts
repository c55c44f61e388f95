/** Only the newest of several requests counts: starting one stops those before it. */
import { wasAborted } from "../../api/client";

export class Latest {
  #running: AbortController | null = null;

  /** Runs work with a signal; null where something newer took its place. */
  async run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
    this.stop();
    const mine = new AbortController();
    this.#running = mine;
    try {
      const result = await work(mine.signal);
      return this.#running === mine ? result : null;
    } catch (error) {
      if (this.#running !== mine || wasAborted(error)) return null;
      throw error;
    }
  }

  stop(): void {
    this.#running?.abort();
    this.#running = null;
  }
}
