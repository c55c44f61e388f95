import type { Part } from "../../api/types";
import type { Values } from "../../api/values";

/** Which part of a tensor is looked at: where each dimension is held, and which one or two of them are shown. */
export type Arrangement = "grid" | "list" | "flat";

export interface Looking {
  arrangement: Arrangement;
  /** The element the sliders stand at, a number for each dimension. */
  index: number[];
  /** The shown dimensions, rows first; one for a list. */
  shown: number[];
  /** First element and number of elements of each shown dimension that are on screen. */
  start: number[];
  count: number[];
  /** First element and number of elements of the flattened view. */
  flatStart: number;
  flatCount: number;
}

export const MOST_SHOWN = 64;
export const MOST_FLAT = 1024;
const FIRST_COUNT: readonly number[] = [16, 12];

export function elements(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** What is shown first: the last two dimensions that are longer than 1, from their beginning. */
export function firstLook(shape: readonly number[]): Looking {
  const shown = shownFirst(shape);
  return {
    arrangement: shown.length === 2 ? "grid" : shown.length === 1 ? "list" : "flat",
    index: shape.map(() => 0),
    shown,
    start: shown.map(() => 0),
    count: countsFor(shown.map((dim) => shape[dim] ?? 1)),
    flatStart: 0,
    flatCount: Math.min(256, Math.max(1, elements(shape))),
  };
}

function shownFirst(shape: readonly number[]): number[] {
  const long = shape.map((_, dim) => dim).filter((dim) => (shape[dim] ?? 0) > 1);
  if (long.length >= 2) return long.slice(-2);
  return shape.length >= 2 ? [shape.length - 2, shape.length - 1] : shape.map((_, dim) => dim);
}

export function countsFor(lengths: readonly number[]): number[] {
  const most = lengths.length === 1 ? [MOST_SHOWN] : FIRST_COUNT;
  return lengths.map((length, place) => Math.max(1, Math.min(most[place] ?? 1, length)));
}

export function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, Math.trunc(Number.isFinite(value) ? value : low)));
}

/** The same look with a slider moved; windows follow it. */
export function moved(look: Looking, shape: readonly number[], dim: number, to: number): Looking {
  const index = [...look.index];
  index[dim] = clamp(to, 0, Math.max(0, (shape[dim] ?? 1) - 1));
  return followed({ ...look, index }, shape);
}

/** The same look at another element. */
export function showing(look: Looking, shape: readonly number[], element: readonly number[]): Looking {
  return followed({ ...look, index: [...element] }, shape);
}

/** Windows that do not have the element any more are put around it. */
function followed(look: Looking, shape: readonly number[]): Looking {
  const start = look.shown.map((dim, place) => {
    const length = shape[dim] ?? 1;
    const count = Math.min(look.count[place] ?? 1, length);
    const [here, from] = [look.index[dim] ?? 0, look.start[place] ?? 0];
    return here >= from && here < from + count ? from : clamp(here - Math.floor(count / 2), 0, Math.max(0, length - count));
  });
  const flat = flatOf(look.index, shape);
  const visible = flat >= look.flatStart && flat < look.flatStart + look.flatCount;
  return { ...look, start, flatStart: visible ? look.flatStart : flat - (flat % look.flatCount) };
}

/** The same look with one window elsewhere, or of another size; it ends where the tensor does, and keeps the element inside. */
export function windowed(look: Looking, shape: readonly number[], place: number, change: { start?: number; count?: number }): Looking {
  const dim = look.shown[place] ?? 0;
  const length = shape[dim] ?? 1;
  const start = clamp(change.start ?? look.start[place] ?? 0, 0, Math.max(0, length - 1));
  const count = clamp(change.count ?? look.count[place] ?? 1, 1, Math.min(MOST_SHOWN, Math.max(1, length - start)));
  const index = [...look.index];
  index[dim] = clamp(index[dim] ?? 0, start, start + count - 1);
  return { ...look, index, start: replaced(look.start, place, start), count: replaced(look.count, place, count) };
}

function replaced(list: readonly number[], place: number, value: number): number[] {
  return list.map((old, at) => (at === place ? value : old));
}

export function withShown(look: Looking, shape: readonly number[], shown: number[]): Looking {
  const arrangement: Arrangement = shown.length === 2 ? "grid" : "list";
  const fresh = { ...look, arrangement, shown, start: shown.map(() => 0), count: countsFor(shown.map((dim) => shape[dim] ?? 1)) };
  return followed(fresh, shape);
}

/** The element some rows and columns from another; null where the tensor ends. */
export function walkedTo(look: Looking, shape: readonly number[], element: readonly number[], [down, across]: readonly [number, number]): number[] | null {
  if (look.arrangement === "flat") {
    const flat = flatOf(element, shape) + across;
    return flat >= 0 && flat < elements(shape) ? indexOf(flat, shape) : null;
  }
  const steps = look.shown.length === 2 ? [down, across] : [across];
  const next = [...element];
  look.shown.forEach((dim, place) => (next[dim] = (next[dim] ?? 0) + (steps[place] ?? 0)));
  return next.every((at, dim) => at >= 0 && at < (shape[dim] ?? 1)) ? next : null;
}

export function partText(look: Looking, shape: readonly number[]): Part {
  if (look.arrangement === "flat") return { flat: `${look.flatStart}:${look.flatStart + look.flatCount}` };
  return { at: shape.map((length, dim) => windowText(look, length, dim)).join(",") };
}

function windowText(look: Looking, length: number, dim: number): string {
  const place = look.shown.indexOf(dim);
  if (place < 0) return String(look.index[dim] ?? 0);
  const from = look.start[place] ?? 0;
  return `${from}:${Math.min(length, from + (look.count[place] ?? 1))}`;
}

/** The whole plane of the shown dimensions: `0,3,:,:`. */
export function planeText(look: Looking, shape: readonly number[]): string {
  return shape.map((_, dim) => (look.shown.includes(dim) ? ":" : String(look.index[dim] ?? 0))).join(",");
}

export function flatOf(index: readonly number[], shape: readonly number[]): number {
  return shape.reduce((flat, length, dim) => flat * length + (index[dim] ?? 0), 0);
}

export function indexOf(flat: number, shape: readonly number[]): number[] {
  const index: number[] = [];
  let rest = flat;
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    const length = shape[dim] ?? 1;
    index[dim] = length ? rest % length : 0;
    rest = length ? Math.floor(rest / length) : 0;
  }
  return index;
}

/** Reads `3, 17, 5` as an index of a shape; a sentence says what is wrong with it. */
export function parseIndex(text: string, shape: readonly number[]): number[] | string {
  const parts = text.replace(/[[\]()]/g, "").split(/[\s,]+/).filter(Boolean).map(Number);
  if (parts.length === 1 && shape.length !== 1) {
    const flat = parts[0] ?? NaN;
    if (Number.isInteger(flat) && flat >= 0 && flat < elements(shape)) return indexOf(flat, shape);
  }
  if (parts.length !== shape.length) return `An index here has ${shape.length} numbers, as in ${shape.map(() => 0).join(", ") || "no number at all"}.`;
  const wrong = parts.findIndex((part, dim) => !Number.isInteger(part) || part < 0 || part >= (shape[dim] ?? 0));
  return wrong < 0 ? parts : `Dimension ${wrong} goes from 0 to ${(shape[wrong] ?? 1) - 1}.`;
}

/** A look as it stands in the address: `0.11_0_16.30_24_12` is an element and the windows of the shown dimensions. */
const PART = /^(\d+)(?:_(\d+)_(\d+))?$/;

/** A `-` at the end says that the later of two dimensions is shown as rows. */
export function toQuery(look: Looking, shape: readonly number[]): string {
  if (look.arrangement === "flat") return `flat_${flatOf(look.index, shape)}_${look.flatStart}_${look.flatCount}`;
  const parts = look.index.map((at, dim) => {
    const place = look.shown.indexOf(dim);
    return place < 0 ? String(at) : `${at}_${look.start[place] ?? 0}_${look.count[place] ?? 1}`;
  });
  const [first = 0, second = Infinity] = look.shown;
  return parts.join(".") + (first > second ? "-" : "");
}

/** The look an address names; null where it names none that fits the shape. */
export function fromQuery(text: string | null, shape: readonly number[]): Looking | null {
  if (!text) return null;
  const first = firstLook(shape);
  const flat = /^flat_(\d+)_(\d+)_(\d+)$/.exec(text);
  if (flat) {
    const last = Math.max(0, elements(shape) - 1);
    const [element = 0, flatStart = 0, flatCount = 1] = [clamp(Number(flat[1]), 0, last), clamp(Number(flat[2]), 0, last), clamp(Number(flat[3]), 1, MOST_FLAT)];
    return showing({ ...first, arrangement: "flat", flatStart, flatCount }, shape, indexOf(element, shape));
  }
  const parts = text.replace(/-$/, "").split(".").map((part) => PART.exec(part));
  if (parts.length !== shape.length || parts.some((part) => part === null)) return null;
  const shown = parts.map((part, dim) => (part?.[2] === undefined ? -1 : dim)).filter((dim) => dim >= 0);
  if (shown.length < 1 || shown.length > 2) return null;
  if (text.endsWith("-")) shown.reverse();
  const index = parts.map((part, dim) => clamp(Number(part?.[1]), 0, Math.max(0, (shape[dim] ?? 1) - 1)));
  const start = shown.map((dim) => clamp(Number(parts[dim]?.[2]), 0, Math.max(0, (shape[dim] ?? 1) - 1)));
  const count = shown.map((dim) => clamp(Number(parts[dim]?.[3]), 1, MOST_SHOWN));
  return showing({ ...first, arrangement: shown.length === 2 ? "grid" : "list", shown, start, count }, shape, index);
}

/** The cells of a window in rows and columns, whichever of its dimensions is shown first. */
export interface Cells {
  rows: number;
  columns: number;
  /** The place of a cell in the values that were sent. */
  place: (row: number, column: number) => number;
}

/** Values come in the order of the tensor's dimensions: a look that shows the later one first is turned. */
export function cellsOf(values: Values, look: Looking): Cells {
  if (look.arrangement !== "grid") return { rows: Math.min(1, values.size), columns: values.size, place: (_, column) => column };
  const [high = 1, wide = 1] = values.shape.slice(-2);
  const turned = (look.shown[0] ?? 0) > (look.shown[1] ?? 1);
  return turned
    ? { rows: wide, columns: high, place: (row, column) => column * wide + row }
    : { rows: high, columns: wide, place: (row, column) => row * wide + column };
}
