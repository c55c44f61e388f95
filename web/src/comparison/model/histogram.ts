import { brief } from "./numbers";
import type { Histogram } from "./types";

export interface Bar {
  /** Shares of the plot's width and height. */
  readonly left: number;
  readonly width: number;
  readonly height: number;
  readonly from: number;
  readonly to: number;
  readonly count: number;
}

/** Bars of equal width per power: the bins are logarithmic. Heights are square roots, so that few are seen beside many. */
export function bars(histogram: Histogram): readonly Bar[] {
  const tallest = histogram.counts.reduce((most, count) => Math.max(most, count), 0);
  const width = 1 / Math.max(1, histogram.counts.length);
  return histogram.counts.map((count, place) => ({
    left: place * width,
    width,
    height: tallest === 0 ? 0 : Math.sqrt(count / tallest),
    from: histogram.edges[place] ?? 0,
    to: histogram.edges[place + 1] ?? 0,
    count,
  }));
}

/** Where a value stands between the outer edges, from 0 to 1; null where it lies outside. */
export function placeOf(value: number | null, histogram: Histogram): number | null {
  const first = histogram.edges[0];
  const last = histogram.edges.at(-1);
  if (value === null || !(value > 0) || first === undefined || last === undefined || value < first || value > last) return null;
  return first === last ? 0 : Math.log(value / first) / Math.log(last / first);
}

/** The plot in a sentence. */
export function histogramWords(histogram: Histogram): string {
  const most = bars(histogram).reduce<Bar | null>((best, bar) => (best === null || bar.count > best.count ? bar : best), null);
  const parts = most === null || most.count === 0 ? ["no difference"] : [`most between ${brief(most.from)} and ${brief(most.to)}`];
  if (histogram.zero > 0) parts.push(`${histogram.zero.toLocaleString("en-US")} without difference`);
  if (histogram.nonfinite > 0) parts.push(`${histogram.nonfinite.toLocaleString("en-US")} not finite`);
  return parts.join(", ");
}
