/** Two sides laid side by side by hand: which dimensions of each are shown, and where the others are held. */
import type { MappingPart } from "../../api/types";
import { clamp } from "./slice_view";

export interface Held {
  shown: number[];
  index: number[];
}

/** The last two dimensions from their beginning. */
export function heldFirst(shape: readonly number[]): Held {
  const dims = shape.map((_, dim) => dim);
  return { shown: dims.slice(-2), index: shape.map(() => 0) };
}

export function toPart({ shown, index }: Held): MappingPart {
  return { at: index.map((place, dim) => (shown.includes(dim) ? ":" : String(place))).join(","), shown };
}

export function reset(held: Held): Held {
  return { ...held, index: held.index.map(() => 0) };
}

/** The reference's choices on the candidate, as far as it has such dimensions. */
export function copied(from: Held, shape: readonly number[]): Held {
  const shown = from.shown.filter((dim) => dim < shape.length);
  const index = shape.map((length, dim) => clamp(from.index[dim] ?? 0, 0, Math.max(0, length - 1)));
  return { shown: shown.length === from.shown.length ? shown : heldFirst(shape).shown, index };
}

/** The order of axes that two choices stand for, as a recipe; null where they stand for none. Held axes of length 1 come and go. */
export function recipeOf(reference: Held, candidate: Held, shapes: readonly [readonly number[], readonly number[]]): string | null {
  const [ours, theirs] = shapes;
  const [kept, keptTheirs] = [keptAxes(reference, ours), keptAxes(candidate, theirs)];
  if (reference.shown.length !== candidate.shown.length || kept.length !== keptTheirs.length) return null;
  const partner = new Map(kept.map((dim, place) => [dim, keptTheirs[place] as number]));
  if (kept.some((dim) => ours[dim] !== theirs[partner.get(dim) ?? -1])) return null;
  const names = new Map([...keptTheirs].sort((one, other) => one - other).map((dim, place) => [dim, String.fromCharCode(97 + place)]));
  const from = theirs.map((_, dim) => names.get(dim) ?? "1").join(" ");
  const to = ours.map((_, dim) => names.get(partner.get(dim) ?? -1) ?? "1").join(" ");
  return from === to ? null : `${from} -> ${to}`;
}

/** The shown axes in their order, then those held that are longer than 1. */
function keptAxes({ shown, index }: Held, shape: readonly number[]): number[] {
  return [...shown, ...index.map((_, dim) => dim).filter((dim) => !shown.includes(dim) && shape[dim] !== 1)];
}
