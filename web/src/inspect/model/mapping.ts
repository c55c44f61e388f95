/** Two sides laid side by side by hand: which dimensions of each are shown, and where the others are held. */
import type { MappingPart } from "../api";
import { clamp } from "./at";

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

/** The order of axes that two choices stand for, as a recipe; null where they stand for none. */
export function recipeOf(reference: Held, candidate: Held, shapes: readonly [readonly number[], readonly number[]]): string | null {
  const [ours, theirs] = shapes;
  if (ours.length !== theirs.length || reference.shown.length !== candidate.shown.length) return null;
  const rest = (held: Held): number[] => held.index.map((_, dim) => dim).filter((dim) => !held.shown.includes(dim));
  const order = new Array<number>(ours.length);
  rest(reference).forEach((dim, place) => (order[dim] = rest(candidate)[place] ?? 0));
  reference.shown.forEach((dim, place) => (order[dim] = candidate.shown[place] ?? 0));
  if (order.every((dim, place) => dim === place) || order.some((dim, place) => theirs[dim] !== ours[place])) return null;
  const names = theirs.map((_, dim) => String.fromCharCode(97 + dim));
  return `${names.join(" ")} -> ${order.map((dim) => names[dim]).join(" ")}`;
}
