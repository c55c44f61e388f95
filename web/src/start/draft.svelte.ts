/** The comparison being set up: its sides, the options, and the sending of it. */
import { sentence } from "../api/client";
import type { Provider } from "../api/provider";
import type { ComparisonKind, Entry } from "../api/types";
import { keep, kept } from "./session_storage";
import { isOptionsForm, noOptions, optionsOf, type OptionsForm } from "./options";
import { SideChoice } from "./side.svelte";

export class Draft {
  readonly reference: SideChoice;
  readonly candidate: SideChoice;
  /** One more run to see beside the two; it changes no verdict. */
  readonly third: SideChoice;
  options = $state<OptionsForm>(kept("options", isOptionsForm) ?? noOptions());
  error = $state<string | null>(null);
  busy = $state(false);
  readonly #provider: Provider;
  #stop: AbortController | null = null;

  constructor(provider: Provider) {
    this.#provider = provider;
    this.reference = new SideChoice("reference", provider);
    this.candidate = new SideChoice("candidate", provider);
    this.third = new SideChoice("third", provider);
  }

  get sides(): readonly [SideChoice, SideChoice] {
    return [this.reference, this.candidate];
  }

  get all(): readonly SideChoice[] {
    return [...this.sides, this.third];
  }

  /** The one side that is filled, where only one is. */
  get lone(): SideChoice | null {
    const filled = this.sides.filter((side) => side.filled);
    return filled.length === 1 ? (filled[0] ?? null) : null;
  }

  async recall(): Promise<void> {
    await Promise.all(this.all.map((side) => side.recall()));
  }

  keepOptions(): void {
    keep("options", this.options);
  }

  /** Sends what must be sent and starts the comparison; null where it did not come to that, and `error` says why. */
  async submit(kind: ComparisonKind): Promise<Entry | null> {
    for (const side of this.all) side.error = null;
    this.error = this.#lacking(kind);
    if (this.error || this.busy) return null;
    this.#stop = new AbortController();
    this.busy = true;
    try {
      return await this.#start(kind, this.#stop.signal);
    } catch (error) {
      const told = this.all.some((side) => side.error !== null);
      if (!this.#stop.signal.aborted && !told) this.error = sentence(error);
      return null;
    } finally {
      this.busy = false;
    }
  }

  cancel(): void {
    this.#stop?.abort();
  }

  async #start(kind: ComparisonKind, signal: AbortSignal): Promise<Entry> {
    const options = optionsOf(this.options);
    const pair = kind === "pair";
    const reference = await (pair ? this.reference : (this.lone ?? this.reference)).ready(signal);
    const candidate = pair ? await this.candidate.ready(signal) : null;
    const third = pair && this.third.filled ? await this.third.ready(signal) : null;
    return this.#provider.compare({ kind, reference, candidate, third, name: null, options });
  }

  #lacking(kind: ComparisonKind): string | null {
    const gone = this.all.find((side) => side.interrupted);
    if (gone) return `The upload of ${gone.words} was interrupted: choose its files again, and it goes on where it stopped.`;
    const empty = this.sides.filter((side) => !side.filled);
    if (empty.length === 2) return "Both sides are empty: drop files on Reference and on Candidate, or give their paths.";
    if (kind !== "pair" || empty.length === 0) return null;
    return `The ${empty[0]?.name ?? ""} is empty: drop its files or give its path, or use “Look at it” for one trace alone.`;
  }
}
