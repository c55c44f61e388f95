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
