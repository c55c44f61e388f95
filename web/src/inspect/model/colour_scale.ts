/** Colours of values and of differences, as numbers to paint with: blue below zero, orange above, others for what is not finite. */
import { metric } from "../../format";
import { colourOf } from "../../theme.svelte";
import { distance } from "./difference";
import type { Values } from "../../api/values";

export type Rgb = readonly [number, number, number];

export interface Scale {
  /** The magnitude that gets the full colour. */
  limit: number;
  /** Symmetric logarithm: linear up to `limit * linear`, logarithmic beyond. */
  log: boolean;
}

export interface Palette {
  zero: Rgb;
  negative: Rgb;
  positive: Rgb;
  nan: Rgb;
  inf: Rgb;
  minusInf: Rgb;
}

export const LIGHT: Palette = {
  zero: [250, 250, 248],
  negative: [20, 84, 164],
  positive: [201, 92, 10],
  nan: [196, 0, 148],
  inf: [250, 214, 0],
  minusInf: [0, 168, 150],
};

export const DARK: Palette = {
  zero: [22, 28, 27],
  negative: [92, 168, 255],
  positive: [255, 160, 70],
  nan: [255, 80, 210],
  inf: [255, 232, 80],
  minusInf: [60, 226, 204],
};

/** Below this share of the limit the symmetric logarithm is a straight line. */
const LINEAR = 1e-4;
const DECADES = Math.log1p(1 / LINEAR);

/** From -1 to 1; NaN stays NaN. */
export function position(value: number, { limit, log }: Scale): number {
  if (!(limit > 0)) return value === 0 ? 0 : Math.sign(value);
  const share = Math.min(1, Math.abs(value) / limit);
  return Math.sign(value) * (log ? Math.log1p(share / LINEAR) / DECADES : share);
}

/** The value at a position of the colour bar. */
export function valueAt(place: number, { limit, log }: Scale): number {
  const size = Math.abs(place);
  return Math.sign(place) * limit * (log ? Math.expm1(size * DECADES) * LINEAR : size);
}

/** A colour bar: colours from left to right, and marks at shares of its width. */
export interface Bar {
  colours: readonly string[];
  ticks: readonly { at: number; text: string }[];
}

const STOPS = 32;

export function barOf(scale: Scale, palette: Palette): Bar {
  const places = Array.from({ length: STOPS + 1 }, (_, place) => (2 * place) / STOPS - 1);
  const marked = scale.limit > 0 ? [-1, -0.5, 0, 0.5, 1] : [0];
  return {
    colours: places.map((place) => css(colour(valueAt(place, scale), scale, palette))),
    ticks: marked.map((place) => ({ at: (place + 1) / 2, text: metric(valueAt(place, scale), 3) })),
  };
}

export function colour(value: number, scale: Scale, palette: Palette): Rgb {
  if (Number.isNaN(value)) return palette.nan;
  if (!Number.isFinite(value)) return value > 0 ? palette.inf : palette.minusInf;
  const place = position(value, scale);
  return mixed(palette.zero, place < 0 ? palette.negative : palette.positive, Math.abs(place));
}

export function mixed(from: Rgb, to: Rgb, share: number): Rgb {
  return [0, 1, 2].map((part) => Math.round(from[part as 0] + (to[part as 0] - from[part as 0]) * share)) as unknown as Rgb;
}

export function css([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}

/** Black or white, whichever can be read on a colour. */
export function inkOn(rgb: Rgb): string {
  const [red, green, blue] = rgb.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return light > 0.179 ? "#000" : "#fff";
}

/** The border of a cell: green up to what is allowed, then over to orange at the largest difference there is. */
export function borderOf(difference: number, allowed: number, largest: number, ends: { small: Rgb; large: Rgb }): Rgb {
  if (Number.isNaN(difference) || difference === Infinity) return ends.large;
  if (difference <= allowed) return ends.small;
  const from = Math.max(allowed, largest * 1e-6, Number.MIN_VALUE);
  const decades = Math.max(1, Math.log10(largest / from));
  return mixed(ends.small, ends.large, Math.max(0.25, Math.min(1, Math.log10(difference / from) / decades)));
}

/** The colours of the cells of a window: background by value, border by difference. */
export interface Shade {
  background: string;
  ink: string;
  border: string;
}

export interface Shaded {
  main: Values;
  other: Values | null;
  /** The largest magnitude on screen, which gets the full colour. */
  limit: number;
  /** What was allowed: atol + rtol * |reference|. */
  tolerance: { atol: number; rtol: number } | null;
  /** Whether NaN was let match NaN. */
  equalNan: boolean;
  /** The largest difference of the pair. */
  largest: number;
  palette: Palette;
}

export const ENDS: { small: Rgb; large: Rgb } = { small: [46, 139, 87], large: [224, 112, 16] };

export function shadeOf({ main, other, limit, tolerance, equalNan, largest, palette }: Shaded, place: number): Shade {
  const value = main.number(place);
  const background = colour(value, { limit, log: false }, palette);
  const shade = { background: css(background), ink: inkOn(background) };
  if (!other) return { ...shade, border: "transparent" };
  const nans = Number(Number.isNaN(value)) + Number(Number.isNaN(other.number(place)));
  const apart = nans === 2 && equalNan ? 0 : nans ? NaN : distance(main.exact(place), other.exact(place));
  const allowed = tolerance ? tolerance.atol + tolerance.rtol * Math.abs(value) : 0;
  return { ...shade, border: css(borderOf(apart, Number.isFinite(allowed) ? allowed : 0, largest, ENDS)) };
}

/** The largest finite magnitude of several windows. */
export function limitOf(windows: readonly (Values | null)[]): number {
  let most = 0;
  for (const values of windows) {
    for (let place = 0; values && place < values.size; place++) {
      const size = Math.abs(values.number(place));
      if (size > most && size < Infinity) most = size;
    }
  }
  return most;
}

/** The palette of the theme that is on screen. */
export function paletteNow(): Palette {
  const [red = 255] = (colourOf("--surface").match(/\d+/g) ?? []).map(Number);
  return red < 128 ? DARK : LIGHT;
}
