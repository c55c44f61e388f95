/** The plane behind three linked heat maps: which part is on screen, and its cells. */
import { sentence } from "../../api/client";
import type { RowValues } from "../../api/row_values";
import type { SideName } from "../../api/types";
import type { Looking } from "../model/slice_view";
import { signed } from "../model/difference";
import type { Raster, Viewport } from "../model/raster";
import type { Values } from "../../api/values";
import { Latest } from "./latest";

export type Panel = SideName | "difference" | "third_difference";
export type Rasters = Partial<Record<Panel, Raster>>;

/** Up to here the cells themselves travel; beyond, the server pools them. */
const MOST_CELLS = 1 << 20;
const OTHER: Partial<Record<Panel, SideName>> = { difference: "candidate", third_difference: "third" };

export class Heat {
  viewport = $state.raw<Viewport>({ top: 0, left: 0, bottom: 1, right: 1 });
  rasters = $state.raw<Rasters>({});
  /** The part that the rasters show. */
  drawn = $state.raw<Viewport>({ top: 0, left: 0, bottom: 1, right: 1 });
  /** Row and column of the cell under the crosshair. */
  cross = $state.raw<readonly [number, number] | null>(null);
  problem = $state<string | null>(null);
  loading = $state(false);
  readonly #latest = new Latest();
  readonly #values: RowValues;
  readonly #panels: readonly Panel[];
  #loaded = "";
  /** The plane that the viewport belongs to, and the part of the tensor that the rasters show. */
  #size = "";
  #part = "";

  constructor(values: RowValues, panels: readonly Panel[]) {
    this.#values = values;
    this.#panels = panels;
  }

  /** Shows all of a plane, unless a part of one of this size is on screen already. */
  fit(rows: number, columns: number): void {
    const size = `${rows} ${columns}`;
    if (size === this.#size) return;
    this.#size = size;
    this.viewport = { top: 0, left: 0, bottom: Math.max(1, rows), right: Math.max(1, columns) };
  }

  /** After another view was looked at: what is still right can be seen at once, while it is read again. */
  resume(look: Looking, shape: readonly number[]): void {
    if (partOf(look, shape, outward(this.viewport)) !== this.#part) this.rasters = {};
  }

  /** Loads what is on screen of the plane of a look, if it is not there yet. */
  async load(look: Looking, shape: readonly number[], pixels: { rows: number; columns: number }, aligned: boolean): Promise<void> {
    const view = outward(this.viewport);
    const part = partOf(look, shape, view);
    const wanted = `${part} ${pixels.rows} ${pixels.columns}`;
    if (wanted === this.#loaded) return;
    this.#loaded = wanted;
    this.loading = true;
    const cells = (view.bottom - view.top) * (view.right - view.left);
    try {
      const found = await this.#latest.run((signal) =>
        cells <= MOST_CELLS ? this.#cells(look, shape, view, aligned, signal) : this.#overviews(look, shape, view, pixels, signal),
      );
      if (!found) return;
      this.rasters = found;
      this.#part = part;
      this.drawn = view;
      this.problem = null;
    } catch (error) {
      this.#loaded = "";
      this.problem = sentence(error);
    }
    this.loading = false;
  }

  stop(): void {
    this.#latest.stop();
    this.#loaded = "";
  }

  async #cells(look: Looking, shape: readonly number[], view: Viewport, aligned: boolean, signal: AbortSignal): Promise<Rasters> {
    const at = cutText(look, shape, view);
    const sides = this.#panels.filter((panel): panel is SideName => !OTHER[panel]);
    const values = await Promise.all(sides.map((side) => this.#values.slice(side, aligned ? "aligned" : "original", { at }, signal)));
    const of = Object.fromEntries(sides.map((side, place) => [side, values[place]])) as Record<SideName, Values>;
    return Object.fromEntries(this.#panels.map((panel) => [panel, rasterOf(numbersOf(panel, of), look, view)]));
  }

  async #overviews(look: Looking, shape: readonly number[], view: Viewport, pixels: { rows: number; columns: number }, signal: AbortSignal): Promise<Rasters> {
    const at = cutText(look, shape, view);
    const turned = isTurned(look);
    const [rows, columns] = turned ? [pixels.columns, pixels.rows] : [pixels.rows, pixels.columns];
    const rasters = await Promise.all(this.#panels.map((panel) => this.#values.overview(panel, at, rows, columns, signal)));
    return Object.fromEntries(this.#panels.map((panel, place) => [panel, turned ? transposed(rasters[place] as Raster) : rasters[place]]));
  }
}

/** What a panel paints, one number for each element. */
function numbersOf(panel: Panel, values: Record<SideName, Values>): Float64Array {
  const other = OTHER[panel];
  if (!other) return values[panel as SideName].numbers();
  const [ours, theirs] = [values.reference, values[other]];
  return Float64Array.from({ length: ours.size }, (_, place) => signed(ours.exact(place), theirs.exact(place)));
}

export function planeSize(look: Looking, shape: readonly number[]): { rows: number; columns: number } {
  const [first, second] = look.shown;
  if (first === undefined) return { rows: 1, columns: 1 };
  if (second === undefined) return { rows: 1, columns: shape[first] ?? 1 };
  return { rows: shape[first] ?? 1, columns: shape[second] ?? 1 };
}

function outward(view: Viewport): Viewport {
  return { top: Math.floor(view.top), left: Math.floor(view.left), bottom: Math.ceil(view.bottom), right: Math.ceil(view.right) };
}

function isTurned(look: Looking): boolean {
  return look.shown.length === 2 && (look.shown[0] ?? 0) > (look.shown[1] ?? 0);
}

function partOf(look: Looking, shape: readonly number[], view: Viewport): string {
  return `${look.shown.join()} ${cutText(look, shape, view)}`;
}

function cutText(look: Looking, shape: readonly number[], view: Viewport): string {
  const [first, second] = look.shown;
  return shape
    .map((_, dim) => {
      if (second !== undefined && dim === first) return `${view.top}:${view.bottom}`;
      if (dim === (second ?? first)) return `${view.left}:${view.right}`;
      return String(look.index[dim] ?? 0);
    })
    .join(",");
}

function rasterOf(cells: Float64Array, look: Looking, view: Viewport): Raster {
  const rows = look.shown.length === 2 ? view.bottom - view.top : 1;
  const raster = { rows, columns: look.shown.length ? view.right - view.left : 1, cells };
  return isTurned(look) ? transposed({ rows: raster.columns, columns: raster.rows, cells: raster.cells }) : raster;
}

/** A slice of one or two whole dimensions, in the order in which they are shown. */
export function rasterOfSlice(values: Values, shown: readonly number[]): Raster {
  const [high, wide] = values.shape.length === 2 ? (values.shape as [number, number]) : [1, values.size];
  const raster = { rows: high, columns: wide, cells: values.numbers() };
  return (shown[0] ?? 0) > (shown[1] ?? Infinity) ? transposed(raster) : raster;
}

function transposed({ rows, columns, cells }: Raster): Raster {
  const turned = new Float64Array(cells.length);
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) turned[column * rows + row] = cells[row * columns + column] as number;
  return { rows: columns, columns: rows, cells: turned };
}
