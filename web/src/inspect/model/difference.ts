/** What there is to say about one element: both values, and how far apart they are. */
import { exactText, magnitudeOrValue, type Exact } from "../../api/values";

export interface Apart {
  reference: string;
  candidate: string;
  /** candidate - reference; the size of it where they are complex. */
  difference: string;
  relative: string;
  ulp: string;
  /** For colours: NaN where it cannot be told. */
  size: number;
}

interface Spacing {
  eps: number;
  smallest: number;
}

const SPACING: Record<string, Spacing> = {
  float64: { eps: 2 ** -52, smallest: 2 ** -1022 },
  float32: { eps: 2 ** -23, smallest: 2 ** -126 },
  float16: { eps: 2 ** -10, smallest: 2 ** -14 },
  bfloat16: { eps: 2 ** -7, smallest: 2 ** -126 },
  float8_e4m3fn: { eps: 2 ** -3, smallest: 2 ** -6 },
  float8_e4m3fnuz: { eps: 2 ** -3, smallest: 2 ** -7 },
  float8_e5m2: { eps: 2 ** -2, smallest: 2 ** -14 },
  float8_e5m2fnuz: { eps: 2 ** -2, smallest: 2 ** -15 },
};

/** `apart(r, c, …)` for an element that one side lacks has an empty text on that side. */
export function apart(reference: Exact | null, candidate: Exact | null, dtypes: readonly [string, string]): Apart {
  const texts = {
    reference: reference === null ? "" : exactText(reference, dtypes[0]),
    candidate: candidate === null ? "" : exactText(candidate, dtypes[1]),
  };
  if (reference === null || candidate === null) return { ...texts, difference: "", relative: "", ulp: "", size: NaN };
  const size = distance(reference, candidate);
  const from = Math.abs(magnitudeOrValue(reference));
  return {
    ...texts,
    difference: isWhole(reference) && isWhole(candidate) ? (BigInt(candidate) - BigInt(reference)).toString() : number(signed(reference, candidate)),
    relative: size === 0 ? "0" : from === 0 || !Number.isFinite(size / from) ? "–" : number(size / from),
    ulp: steps(size, from, dtypes),
    size,
  };
}

/** How far apart two elements are, as a number; equal infinities and two NaN are not apart. */
export function distance(reference: Exact, candidate: Exact): number {
  return Math.abs(signed(reference, candidate));
}

/** Candidate - reference; the size of it where they are complex. Whole numbers are subtracted as such. */
export function signed(reference: Exact, candidate: Exact): number {
  if (Array.isArray(reference) || Array.isArray(candidate)) {
    const [a, b] = parts(reference);
    const [c, d] = parts(candidate);
    return Math.hypot(apartOf(a, c), apartOf(b, d));
  }
  const beyond = typeof reference === "bigint" || typeof candidate === "bigint";
  if (beyond && isWhole(reference) && isWhole(candidate)) return Number(BigInt(candidate) - BigInt(reference));
  return apartOf(Number(reference), Number(candidate));
}

function apartOf(reference: number, candidate: number): number {
  return reference === candidate || (Number.isNaN(reference) && Number.isNaN(candidate)) ? 0 : candidate - reference;
}

function parts(value: Exact): [number, number] {
  return Array.isArray(value) ? [value[0] as number, value[1] as number] : [Number(value), 0];
}

function isWhole(value: Exact): value is bigint | boolean | number {
  return typeof value === "bigint" || typeof value === "boolean" || Number.isSafeInteger(value);
}

/** In units of the coarser type's spacing at the reference, as the metric `max_ulp` counts them. */
function steps(size: number, from: number, dtypes: readonly [string, string]): string {
  const [first, second] = dtypes.map((name) => SPACING[name]);
  if (!first || !second || !Number.isFinite(size) || !Number.isFinite(from)) return "–";
  const coarser = first.eps >= second.eps ? first : second;
  const power = from > 0 ? 2 ** Math.floor(Math.log2(from)) : 0;
  const spacing = Math.max(power > from ? power / 2 : power, coarser.smallest) * coarser.eps;
  return number(size / spacing);
}

function number(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return String(Number(value.toPrecision(6)));
}
