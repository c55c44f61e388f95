/** One open inspector: what is looked at, and the values that are there. */
import { sentence } from "../../api/client";
import { router } from "../../router.svelte";
import { provider } from "../../api/provider";
import type { RowValues } from "../../api/row_values";
import type { Layout, SideName } from "../../api/types";
import { firstLook, flatOf, fromQuery, indexOf, type Looking, moved, partText, planeText, showing, toQuery, withShown } from "../model/slice_view";
import type { Values } from "../../api/values";
import type { Heat } from "./heat.svelte";
import { Latest } from "./latest";

export type Sides = Partial<Record<SideName, Values>>;

export class Inspection {
  readonly values: RowValues;
  layout = $state.raw<Layout | null>(null);
  look = $state.raw<Looking>(firstLook([]));
  /** Values of the window on screen, and the look they belong to. */
  sides = $state.raw<Sides>({});
  shownLook = $state.raw<Looking>(firstLook([]));
  /** The element under the pointer; what is said is said of this one, or else of the one the sliders stand at. */
  pointed = $state.raw<number[] | null>(null);
  problem = $state<string | null>(null);
  /** Counts the elements that were found and are to be brought into view. */
  found = $state(0);
  /** Sides whose files changed since they were compared. */
  changed = $state.raw<readonly SideName[]>([]);
  /** The side that is looked at where the two have no layout in common. */
  alone = $state<"reference" | "candidate">("reference");
  /** The heat maps as they were left, to come back to. */
  heat: Heat | null = null;
  readonly #latest = new Latest();
  /** Moves of linked sliders that came before the shape was known. */
  readonly #early = new Map<number, number>();
  #scheduled: Promise<void> | null = null;
  #shownPart = "";

  constructor(comparison: string, row: number) {
    this.values = provider.rowValues(comparison, row);
    this.values.onchanged = (side) => (this.changed = [...new Set([...this.changed, side])]);
  }

  /** The shape sliders go over: the aligned one, or that of the one side that is looked at. */
  get shape(): readonly number[] {
    return this.layout?.aligned?.shape ?? this.layout?.[this.alone]?.shape ?? [];
  }

  /** The sides on screen: all of them in one layout, or one alone. */
  get present(): SideName[] {
    const layout = this.layout;
    if (!layout) return [];
    if (!layout.aligned) return layout[this.alone] ? [this.alone] : [];
    return layout.third ? ["reference", "candidate", "third"] : ["reference", "candidate"];
  }

  /** Both are there, but nothing relates them: which one to look at is a choice. */
  get unrelated(): boolean {
    return this.layout !== null && !this.layout.aligned && this.layout.reference !== null && this.layout.candidate !== null;
  }

  lookAt(side: "reference" | "candidate"): void {
    this.alone = side;
    this.sides = {};
    this.heat = null;
    void this.change(firstLook(this.shape));
  }

  /** The address that opens this slice again. */
  get link(): string {
    const { comparison, row } = this.values;
    return router.link(`/c/${encodeURIComponent(comparison)}/row/${row}?view=values&at=${toQuery(this.look, this.shape)}`);
  }

  get plane(): string {
    return planeText(this.look, this.shape);
  }

  async open(query: string | null): Promise<void> {
    try {
      this.layout = await this.values.layout();
      this.changed = this.layout.changed;
      this.alone = this.layout.reference ? "reference" : "candidate";
      this.look = this.#movedBy(this.#early, fromQuery(query, this.shape) ?? this.#startingLook());
      await this.#load();
    } catch (error) {
      this.problem = sentence(error);
    }
  }

  close(): void {
    this.#latest.stop();
  }

  #startingLook(): Looking {
    const look = firstLook(this.shape);
    return linked.on ? this.#movedBy(linked.places, look) : look;
  }

  #movedBy(moves: ReadonlyMap<number, number>, look: Looking): Looking {
    for (const [dim, to] of moves) if (dim < this.shape.length) look = moved(look, this.shape, dim, to);
    return look;
  }

  /** Settles once the values of the look, or of a later one, are there. */
  change(look: Looking): Promise<void> {
    this.look = look;
    return this.#schedule();
  }

  move(dim: number, to: number): void {
    void this.change(moved(this.look, this.shape, dim, to));
    linked.moved(this, dim, this.look.index[dim] ?? 0);
  }

  follow(dim: number, to: number): void {
    if (!this.layout) this.#early.set(dim, to);
    else if (dim < this.shape.length) void this.change(moved(this.look, this.shape, dim, to));
  }

  show(dims: number[]): void {
    void this.change(withShown(this.look, this.shape, dims));
  }

  /** Sets every slider to an element. */
  goTo(element: readonly number[]): Promise<void> {
    this.pointed = null;
    const there = this.change(showing(this.look, this.shape, element));
    element.forEach((to, dim) => linked.moved(this, dim, to));
    return there;
  }

  /** Sets every slider to an element and brings it into view. */
  async reveal(element: readonly number[]): Promise<void> {
    await this.goTo(element);
    this.found++;
  }

  /** The index of a cell of the window on screen. */
  elementAt(row: number, column: number): number[] {
    const { arrangement, shown, index, start, flatStart } = this.shownLook;
    if (arrangement === "flat") return indexOf(flatStart + column, this.shape);
    const element = [...index];
    const along = shown.length === 2 ? [row, column] : [column];
    shown.forEach((dim, place) => (element[dim] = (start[place] ?? 0) + (along[place] ?? 0)));
    return element;
  }

  flat(element: readonly number[]): number {
    return flatOf(element, this.shape);
  }

  /** Moves of a slider come faster than frames: one request for each frame is enough. */
  #schedule(): Promise<void> {
    this.#scheduled ??= new Promise<void>((resolve) => {
      requestAnimationFrame(() => {
        this.#scheduled = null;
        resolve(this.#load());
      });
    });
    return this.#scheduled;
  }

  async #load(): Promise<void> {
    const look = this.look;
    const part = JSON.stringify([partText(look, this.shape), this.present]);
    try {
      const found = part === this.#shownPart && !this.problem ? this.sides : await this.#latest.run((signal) => this.#fetch(look, signal));
      if (!found) return;
      this.sides = found;
      this.shownLook = look;
      this.#shownPart = part;
      this.problem = null;
    } catch (error) {
      this.problem = sentence(error);
    }
  }

  async #fetch(look: Looking, signal: AbortSignal): Promise<Sides> {
    const space = this.layout?.aligned ? "aligned" : "original";
    const part = partText(look, this.shape);
    const names = this.present;
    const values = await Promise.all(names.map((side) => this.values.slice(side, space, part, signal)));
    return Object.fromEntries(names.map((side, place) => [side, values[place]]));
  }
}

/** Sliders that move together: the same token, head or channel in every row that is open. */
interface Follower {
  follow(dim: number, to: number): void;
}

class Linked {
  on = $state(false);
  /** Where linked dimensions were last put; rows opened later start there. */
  readonly places = new Map<number, number>();
  readonly #followers = new Set<Follower>();

  join(follower: Follower): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  moved(by: Follower, dim: number, to: number): void {
    if (!this.on) return;
    this.places.set(dim, to);
    for (const follower of this.#followers) if (follower !== by) follower.follow(dim, to);
  }
}

export const linked = new Linked();
