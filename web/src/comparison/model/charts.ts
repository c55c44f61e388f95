import type { Status } from "../../status";
import { brief, type Num, toNumber } from "./row_text";
import type { Histogram, RowLine } from "../../api/types";

/** One point of the error over depth; NaN and infinite errors stay what they are. */
export interface DepthPoint {
  readonly index: number;
  readonly key: string;
  readonly layer: number | null;
  readonly status: Status;
  readonly error: number;
  readonly allowed: number | null;
}

export type DepthTriple = readonly [number, Num, Num | null];

export function depthPoints(depth: readonly DepthTriple[], rows: readonly RowLine[]): readonly DepthPoint[] {
  const byIndex = new Map(rows.map((row) => [row.index, row]));
  return depth.flatMap(([index, error, allowed]) => {
    const row = byIndex.get(index);
    if (row === undefined) return [];
    const { key, layer, status } = row;
    const size = isBeyond(row) ? Number.POSITIVE_INFINITY : (toNumber(error) ?? Number.NaN);
    return [{ index, key, layer, status, error: size, allowed: toNumber(allowed) }];
  });
}

/** NaN and infinity are left out of an error's norm, which may be 0 although the row is as wrong as can be. */
function isBeyond(row: RowLine): boolean {
  return row.status === "mismatch" && row.ratio === "inf";
}

/** What a log axis can show: `bottom` stands for 0, `top` for what is not finite. Both are whole powers of ten. */
export interface DepthScale {
  readonly bottom: number;
  readonly top: number;
}

/** Decades that the axis shows below what most rows are allowed; what is smaller stands on its bottom. */
const BELOW = 4;

export function depthScale(points: readonly DepthPoint[]): DepthScale {
  const positive = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null && Number.isFinite(value) && value > 0) as number[];
  const limits = positive(points.map((point) => point.allowed)).sort((a, b) => a - b);
  const shown = [...limits, ...positive(points.map((point) => point.error))];
  if (shown.length === 0) return { bottom: 1e-9, top: 1 };
  const usual = limits[limits.length >> 1];
  const least = shown.reduce((found, value) => Math.min(found, value));
  const zeros = points.some((point) => point.error === 0 && point.allowed !== 0) ? 1 : 0;
  const low = Math.max(Math.floor(Math.log10(least)) - zeros, usual === undefined ? -Infinity : Math.floor(Math.log10(usual)) - BELOW);
  const high = Math.ceil(Math.log10(shown.reduce((most, value) => Math.max(most, value))) + 0.15);
  return { bottom: 10 ** low, top: 10 ** Math.max(high, low + 1) };
}

/** The height of a value within the scale. */
export function onScale(value: number | null, scale: DepthScale): number | null {
  if (value === null) return null;
  if (!Number.isFinite(value)) return scale.top;
  return Math.min(scale.top, Math.max(scale.bottom, value));
}

/** Where each layer begins along the axis, thinned to a number that can be read. */
export function layerStarts(points: readonly DepthPoint[], most: number): readonly { place: number; label: string }[] {
  const starts: { place: number; label: string }[] = [];
  let last: number | null = null;
  points.forEach((point, place) => {
    if (point.layer !== null && point.layer !== last) starts.push({ place, label: String(point.layer) });
    if (point.layer !== null) last = point.layer;
  });
  const step = Math.max(1, Math.ceil(starts.length / Math.max(1, most)));
  return starts.filter((_, number) => number % step === 0);
}

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
