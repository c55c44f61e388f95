/** Cells onto pixels: under every pixel the cell of the largest magnitude shows, so that one outlier is never lost. */
import { colour, position, valueAt, type Palette, type Rgb, type Scale } from "./colour_scale";

export interface Raster {
  rows: number;
  columns: number;
  cells: Float64Array | Float32Array;
}

/** The part of a plane that is on screen, in cells; ends are exclusive and need not be whole. */
export interface Viewport {
  top: number;
  left: number;
  bottom: number;
  right: number;
}

/** NaN outweighs everything, then the infinities, then size. */
export function outweighs(one: number, other: number): boolean {
  if (Number.isNaN(other)) return false;
  return Number.isNaN(one) || Math.abs(one) > Math.abs(other);
}

/** Pools cells to at most `rows` x `columns` pixels. */
export function pooled(raster: Raster, rows: number, columns: number): Raster {
  const high = Math.min(rows, raster.rows);
  const wide = Math.min(columns, raster.columns);
  if (high === raster.rows && wide === raster.columns) return raster;
  const cells = new Float64Array(high * wide);
  const columnOf = Uint32Array.from({ length: raster.columns }, (_, column) => Math.floor((column * wide) / raster.columns));
  for (let row = 0; row < raster.rows; row++) {
    const into = Math.floor((row * high) / raster.rows) * wide;
    const from = row * raster.columns;
    for (let column = 0; column < raster.columns; column++) {
      const value = raster.cells[from + column] as number;
      const at = into + (columnOf[column] as number);
      if (outweighs(value, cells[at] as number)) cells[at] = value;
    }
  }
  return { rows: high, columns: wide, cells };
}

const STEPS = 512;

/** Colours are looked up in a table: one for each of `STEPS` positions on either side of zero. */
export function painted(raster: Raster, scale: Scale, palette: Palette): ImageData {
  const image = new ImageData(Math.max(1, raster.columns), Math.max(1, raster.rows));
  const pixels = new Uint32Array(image.data.buffer);
  const table = Uint32Array.from({ length: 2 * STEPS + 1 }, (_, step) => packed(colour(valueAt(step / STEPS - 1, UNIT), UNIT, palette)));
  const [nan, inf, minusInf] = [packed(palette.nan), packed(palette.inf), packed(palette.minusInf)];
  for (let place = 0; place < raster.cells.length; place++) {
    const value = raster.cells[place] as number;
    if (value - value !== 0) pixels[place] = Number.isNaN(value) ? nan : value > 0 ? inf : minusInf;
    else pixels[place] = table[Math.round((position(value, scale) + 1) * STEPS)] as number;
  }
  return image;
}

const UNIT: Scale = { limit: 1, log: false };

/** As the bytes red, green, blue and opaque lie in memory. */
function packed([red, green, blue]: Rgb): number {
  return new Uint32Array(new Uint8ClampedArray([red, green, blue, 255]).buffer)[0] as number;
}

/** The largest finite magnitude. */
export function limitOf(raster: Raster): number {
  let limit = 0;
  for (const value of raster.cells) {
    const size = Math.abs(value);
    if (size > limit && size < Infinity) limit = size;
  }
  return limit;
}

/** Where the largest difference from zero is painted; null where all are zero. */
export function largestAt(raster: Raster): readonly [number, number] | null {
  let best = -1;
  for (let place = 0; place < raster.cells.length; place++) {
    const value = raster.cells[place] as number;
    if (value !== 0 && (best < 0 || outweighs(value, raster.cells[best] as number))) best = place;
  }
  return best < 0 ? null : [Math.floor(best / raster.columns), best % raster.columns];
}

/** Zooms about a cell; `factor` below 1 comes nearer. */
export function zoomed(view: Viewport, rows: number, columns: number, factor: number, row: number, column: number): Viewport {
  const high = Math.max(1, Math.min(rows, (view.bottom - view.top) * factor));
  const wide = Math.max(1, Math.min(columns, (view.right - view.left) * factor));
  const above = (row - view.top) / (view.bottom - view.top);
  const before = (column - view.left) / (view.right - view.left);
  return within({ top: row - above * high, left: column - before * wide, bottom: row + (1 - above) * high, right: column + (1 - before) * wide }, rows, columns);
}

export function panned(view: Viewport, rows: number, columns: number, down: number, across: number): Viewport {
  return within({ top: view.top + down, bottom: view.bottom + down, left: view.left + across, right: view.right + across }, rows, columns);
}

function within(view: Viewport, rows: number, columns: number): Viewport {
  const high = Math.min(rows, view.bottom - view.top);
  const wide = Math.min(columns, view.right - view.left);
  const top = Math.max(0, Math.min(rows - high, view.top));
  const left = Math.max(0, Math.min(columns - wide, view.left));
  return { top, left, bottom: top + high, right: left + wide };
}
