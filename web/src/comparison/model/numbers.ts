import { asNumber, count, metric } from "../../format";
import type { Num } from "../../format";

export type { Num };

/** A number of the JSON, or null where there is none: NaN stays apart from nothing. */
export function toNumber(value: Num | null | undefined): number | null {
  return value === null || value === undefined ? null : asNumber(value);
}

/** For the table: three digits. */
export function brief(value: Num | null | undefined): string {
  return metric(value, 3);
}

/** For the opened row: six digits, whole numbers with separators. */
export function precise(value: Num | null | undefined): string {
  const whole = typeof value === "number" && Number.isInteger(value) && Math.abs(value) < 1e15;
  return whole && value !== 0 ? count(value) : metric(value, 6);
}
