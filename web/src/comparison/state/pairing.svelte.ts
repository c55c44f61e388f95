import { sentence } from "../../api/client";
import type { Entry } from "../../api/types";
import { toasts } from "../../toasts.svelte";
import { provider } from "../../api/provider";
import { NO_EDITS } from "../model/edits";
import type { Edits } from "../../api/types";

/** What was paired by hand, and the way back. */
export class PairingEdits {
  edits = $state.raw<Edits>(NO_EDITS);
  problem = $state<string | null>(null);
  busy = $state(false);

  readonly #id: string;
  readonly #started: (entry: Entry) => void;
  #earlier = $state.raw<readonly Edits[]>([]);

  constructor(id: string, started: (entry: Entry) => void) {
    this.#id = id;
    this.#started = started;
  }

  get undoable(): boolean {
    return this.#earlier.length > 0;
  }

  async load(): Promise<void> {
    try {
      this.edits = await provider.edits(this.#id);
    } catch (error) {
      this.problem = sentence(error);
    }
  }

  /** Sends the edits; the comparison runs again by itself. */
  async apply(changed: Edits): Promise<void> {
    const before = this.edits;
    if (await this.#put(changed)) this.#earlier = [...this.#earlier, before];
  }

  async undo(): Promise<void> {
    const before = this.#earlier.at(-1);
    if (before !== undefined && (await this.#put(before))) this.#earlier = this.#earlier.slice(0, -1);
  }

  async #put(changed: Edits): Promise<boolean> {
    this.busy = true;
    this.problem = null;
    try {
      this.#started(await provider.putEdits(this.#id, changed));
      this.edits = changed;
      return true;
    } catch (error) {
      this.problem = sentence(error);
      toasts.say(this.problem, "error");
      return false;
    } finally {
      this.busy = false;
    }
  }
}
