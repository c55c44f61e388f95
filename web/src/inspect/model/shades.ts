/** The colours of the cells of a window: background by value, border by difference. */
import { borderOf, colour, css, inkOn, type Palette, type Rgb } from "./colours";
import { distance } from "./difference";
import type { Values } from "./values";

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
