import { SvelteMap } from "svelte/reactivity";
import { sentence, wasAborted } from "../../api/client";
import { provider } from "../../api/provider";
import type { RowDetail } from "../../api/types";

export type Loaded = { readonly detail: RowDetail } | { readonly error: string } | "loading";

/** What opened rows show; kept for as long as the result stays the same. */
export class Details {
  readonly #id: string;
  readonly #known = new SvelteMap<number, Loaded>();
  #abort = new AbortController();

  constructor(id: string) {
    this.#id = id;
  }

  get(index: number): Loaded | undefined {
    return this.#known.get(index);
  }

  async load(index: number): Promise<void> {
    const known = this.#known.get(index);
    if (known === "loading" || (known !== undefined && "detail" in known)) return;
    this.#known.set(index, "loading");
    const { signal } = this.#abort;
    try {
      this.#known.set(index, { detail: await provider.rowDetail(this.#id, index, signal) });
    } catch (error) {
      if (!wasAborted(error)) this.#known.set(index, { error: sentence(error) });
    }
  }

  forget(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.#known.clear();
  }
}
