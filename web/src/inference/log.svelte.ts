/** The log of the page; the server keeps the same lines in debug_browser.log. */
import { inference } from "./api";

const SHOWN = 5000;

export class Log {
  lines = $state<string[]>([]);
  path = $state("");
  verbose = $state(false);
  statistics = $state(false);
  positions = $state(false);
  #waiting: string[] = [];
  #sending = false;

  say(text: string, verbose = false): void {
    if (verbose && !this.verbose) return;
    const line = `${new Date().toISOString().slice(11, 23)} ${text}`;
    this.lines.push(line);
    if (this.lines.length > SHOWN) this.lines.splice(0, this.lines.length - SHOWN);
    this.#waiting.push(line);
    void this.#send();
  }

  async clear(): Promise<void> {
    this.lines = [];
    this.#waiting = [];
    await inference.clearLog();
  }

  /** Lines that pile up while one request is on its way go with the next. */
  async #send(): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    try {
      while (this.#waiting.length) this.path = (await inference.log(this.#waiting.splice(0))).path;
    } catch {
      // the page shows the lines, and says elsewhere that the server is gone
    } finally {
      this.#sending = false;
    }
  }
}
