import type { Status } from "../../status";
import { toNumber } from "./numbers";
import type { Num } from "./numbers";
import type { RowLine } from "./types";

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

export function depthScale(points: readonly DepthPoint[]): DepthScale {
  const shown = points
    .flatMap((point) => [point.error, point.allowed ?? Number.NaN])
    .filter((value) => Number.isFinite(value) && value > 0);
  if (shown.length === 0) return { bottom: 1e-9, top: 1 };
  const low = Math.floor(Math.log10(shown.reduce((least, value) => Math.min(least, value))));
  const high = Math.ceil(Math.log10(shown.reduce((most, value) => Math.max(most, value))) + 0.15);
  const zeros = points.some((point) => point.error === 0 && point.allowed !== 0) ? 1 : 0;
  return { bottom: 10 ** (low - zeros), top: 10 ** Math.max(high, low + 1) };
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
