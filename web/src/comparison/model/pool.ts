import type { Item } from "./listing";

/** An element that draws a line of the table. */
export interface Slot {
  readonly number: number;
  readonly item: Item;
  readonly place: number;
}

/** Who draws what: an element whose line leaves the window is given to a line that comes in, so that few are ever made. */
export class Pool {
  #slots: readonly Slot[] = [];
  #made = 0;

  /** A slot for each of these places, in the order they were made in; a line that was drawn before keeps its element. */
  draw(items: readonly Item[], places: readonly number[]): readonly Slot[] {
    const before = new Map(this.#slots.map((slot) => [slot.item.id, slot]));
    const staying = new Set(places.map((place) => items[place]?.id));
    const free: Record<Item["kind"], number[]> = { group: [], row: [] };
    for (const { item, number } of this.#slots) if (!staying.has(item.id)) free[item.kind].push(number);
    const slots = places.flatMap((place) => {
      const item = items[place];
      if (item === undefined) return [];
      const known = before.get(item.id);
      if (known?.item === item && known.place === place) return [known];
      return [{ number: known?.number ?? free[item.kind].shift() ?? this.#made++, item, place }];
    });
    this.#slots = slots.sort((one, other) => one.number - other.number);
    return this.#slots;
  }
}
