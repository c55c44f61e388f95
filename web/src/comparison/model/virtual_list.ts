import type { Item } from "./table";

/** Where every line stands, so that only those in sight need to exist. */
export interface Layout {
  /** One more than there are lines: the last is the height of all. */
  readonly tops: Float64Array;
}

export interface Range {
  readonly first: number;
  /** The one after the last. */
  readonly end: number;
}

export function laidOut(count: number, heightOf: (place: number) => number): Layout {
  const tops = new Float64Array(count + 1);
  for (let place = 0; place < count; place += 1) tops[place + 1] = tops[place]! + heightOf(place);
  return { tops };
}

export function fullHeight(layout: Layout): number {
  return layout.tops.at(-1) ?? 0;
}

/** The line at a height: the last one that begins at or above it. */
export function placeAt(layout: Layout, y: number): number {
  let low = 0;
  let high = layout.tops.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (layout.tops[middle]! <= y) low = middle;
    else high = middle - 1;
  }
  return Math.max(0, low);
}

/** The lines between two heights, and some more on either side so that scrolling finds them there. */
export function visible(layout: Layout, top: number, bottom: number, overscan: number): Range {
  const count = layout.tops.length - 1;
  if (count <= 0) return { first: 0, end: 0 };
  const first = Math.max(0, placeAt(layout, Math.max(0, top)) - overscan);
  const end = Math.min(count, placeAt(layout, Math.max(0, bottom)) + 1 + overscan);
  return { first, end };
}

/** How far to scroll so that a line lies below the floating head and above the lower edge; null if it does already. */
export function scrollFor(layout: Layout, place: number, top: number, bottom: number, lineHeight: number): number | null {
  const begin = layout.tops[place] ?? 0;
  if (begin < top) return begin - top;
  if (begin + lineHeight > bottom) return begin + lineHeight - bottom;
  return null;
}

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

/** Elements that draw other lines than before stand anywhere on the page; selecting, tabbing and reading aloud follow the document. */
/** Puts the items of a list in the order of their lines; one that is in use stays, and the others come to lie around it. */
export function putInOrder(list: HTMLElement): void {
  const items = [...list.querySelectorAll<HTMLElement>(":scope > [data-place]")];
  const ordered = items.toSorted((one, other) => placeOf(one) - placeOf(other));
  let next = items[0] ?? null;
  for (const item of ordered) {
    if (item === next || stays(item)) next = following(item);
    else list.insertBefore(item, next);
  }
}

function placeOf(item: HTMLElement): number {
  return Number(item.dataset["place"]);
}

/** To move an element takes away its focus, its selection, and how far its parts are scrolled. */
function stays(item: HTMLElement): boolean {
  const selection = getSelection();
  const selected = selection !== null && !selection.isCollapsed && selection.containsNode(item, true);
  return selected || item.children.length > 1 || item.contains(document.activeElement);
}

/** What stands behind an item: the next one, or what the list ends with. */
function following(item: HTMLElement): HTMLElement | null {
  return item.nextSibling as HTMLElement | null;
}
