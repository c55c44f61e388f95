/** Numbers, sizes and times as text. A value that is not finite travels as a string and is shown as one. */
export type Num = number | "nan" | "inf" | "-inf";

const COUNT = new Intl.NumberFormat("en-US");
const NAMED: Record<string, number> = { nan: NaN, inf: Infinity, "-inf": -Infinity };
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];
export const NOTHING = "–";

export function asNumber(value: Num | null | undefined): number {
  if (value === null || value === undefined) return NaN;
  return typeof value === "number" ? value : (NAMED[value] ?? NaN);
}

/** A metric to a few significant digits: `0.00094986`, `1.04e-9`, `-inf`; a dash where there is none. */
export function metric(value: Num | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return NOTHING;
  if (typeof value === "string") return value;
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e7) return shortExponent(value.toExponential(digits - 1));
  return String(Number(value.toPrecision(digits)));
}

function shortExponent(text: string): string {
  const [mantissa = "", exponent = ""] = text.split("e");
  const trimmed = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  return `${trimmed}e${exponent.replace("+", "")}`;
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NOTHING : COUNT.format(value);
}

/** `1 tensor`, `1,024 tensors`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${COUNT.format(value)} ${value === 1 ? one : many}`;
}

export function percent(share: number, digits = 1): string {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  return `${Number((share * 100).toFixed(digits))} %`;
}

/** Decimal units, as disks are sold: `1.4 GB`. */
export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return NOTHING;
  let value = size;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : Number(value.toFixed(1))} ${UNITS[unit]}`;
}

/** `8 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return NOTHING;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 1) return "< 1 s";
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return whole % 60 && whole < 600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${Math.floor(whole / 60)} min`;
  const minutes = Math.floor((whole % 3600) / 60);
  return `${Math.floor(whole / 3600)} h${minutes ? ` ${minutes} min` : ""}`;
}

/** `just now`, `12 minutes ago`, `yesterday`; beyond a month the date. */
export function ago(when: string | number, now: number = Date.now()): string {
  const then = instant(when);
  const seconds = (now - then.getTime()) / 1000;
  if (seconds < 60) return "just now";
  if (seconds > 30 * 86400) return then.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  const [unit, size] = STEPS.find(([, length]) => seconds >= length) ?? ["minute", 60];
  return RELATIVE.format(-Math.floor(seconds / size), unit);
}

export function moment(when: string | number): string {
  return instant(when).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

/** Times travel as ISO text or as seconds since 1970. */
export function instant(when: string | number): Date {
  return new Date(typeof when === "number" ? when * 1000 : when);
}

/** `[1, 24, 64]`; `[]` is a scalar. */
export function shape(dims: readonly number[] | null | undefined): string {
  return dims ? `[${dims.join(", ")}]` : NOTHING;
}

/** Text that begins with a plain word, with a capital; a name or path at its head stays as it is. */
export function capitalised(text: string): string {
  return /^[a-z]+([ ,]|$)/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}
