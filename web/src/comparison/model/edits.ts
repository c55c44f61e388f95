import type { Edits, TensorLine } from "../../api/types";

export const NO_EDITS: Edits = { pairs: [], dropped: [], layouts: [], layer_offset: null };

export function isEdited(edits: Edits): boolean {
  return edits.pairs.length + edits.dropped.length + edits.layouts.length > 0 || edits.layer_offset !== null;
}

export function hasPair(edits: Edits, reference: string, candidate: string): boolean {
  return edits.pairs.some((pair) => pair.reference === reference && pair.candidate === candidate);
}

/** Each side belongs to one pair at most, so a new pair takes the place of what named either side. */
export function withPair(edits: Edits, reference: string, candidate: string): Edits {
  const others = edits.pairs.filter((pair) => pair.reference !== reference && pair.candidate !== candidate);
  const dropped = edits.dropped.filter((pair) => !(pair.reference === reference && pair.candidate === candidate));
  return { ...edits, pairs: [...others, { reference, candidate }], dropped };
}

export function withoutPair(edits: Edits, reference: string, candidate: string): Edits {
  const pairs = edits.pairs.filter((pair) => !(pair.reference === reference && pair.candidate === candidate));
  const dropped = edits.dropped.filter((pair) => !(pair.reference === reference && pair.candidate === candidate));
  return { ...edits, pairs, dropped: [...dropped, { reference, candidate }] };
}

export function withLayout(edits: Edits, key: string, recipe: string): Edits {
  return { ...edits, layouts: [...edits.layouts.filter((layout) => layout.key !== key), { key, recipe }] };
}

export function withOffset(edits: Edits, offset: number): Edits {
  return { ...edits, layer_offset: offset };
}

/** One edit as a sentence, and the edits without it. */
export interface EditLine {
  readonly text: string;
  readonly without: Edits;
}

export function editLines(edits: Edits): readonly EditLine[] {
  const lines: EditLine[] = [
    ...edits.pairs.map((pair) => ({
      text: `${pair.reference} is paired with ${pair.candidate}`,
      without: { ...edits, pairs: edits.pairs.filter((other) => other !== pair) },
    })),
    ...edits.dropped.map((pair) => ({
      text: `${pair.reference} is not paired with ${pair.candidate}`,
      without: { ...edits, dropped: edits.dropped.filter((other) => other !== pair) },
    })),
    ...edits.layouts.map((layout) => ({
      text: `${layout.key} is compared as ${layout.recipe}`,
      without: { ...edits, layouts: edits.layouts.filter((other) => other !== layout) },
    })),
  ];
  if (edits.layer_offset !== null) {
    const sign = edits.layer_offset > 0 ? "+" : "";
    lines.push({ text: `the candidate's layers are counted ${sign}${edits.layer_offset}`, without: { ...edits, layer_offset: null } });
  }
  return lines;
}

/** The tensors of the other side for a row, best first: named alternatives, then likeness of name and shape. */
export function bestFirst(
  tensors: readonly TensorLine[],
  wanted: { readonly key: string; readonly shape: readonly number[] | null },
  alternatives: readonly string[],
): readonly TensorLine[] {
  const score = (tensor: TensorLine): number => {
    const named = alternatives.indexOf(tensor.key);
    return (
      (named >= 0 ? 100 - named : 0) +
      shapeLikeness(tensor.shape, wanted.shape) +
      8 * nameLikeness(tensor.key, wanted.key)
    );
  };
  return tensors
    .map((tensor, place) => ({ tensor, place, score: score(tensor) }))
    .sort((a, b) => b.score - a.score || a.place - b.place)
    .map((item) => item.tensor);
}

function shapeLikeness(a: readonly number[] | null, b: readonly number[] | null): number {
  if (a === null || b === null) return 0;
  if (a.join() === b.join()) return 5;
  return elements(a) === elements(b) ? 3 : 0;
}

function elements(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** The share of words, and of words that follow each other, which the two names have in common. */
function nameLikeness(a: string, b: string): number {
  const ours = words(a);
  const theirs = words(b);
  const shared = [...ours].filter((word) => theirs.has(word)).length;
  return (2 * shared) / Math.max(1, ours.size + theirs.size);
}

function words(name: string): ReadonlySet<string> {
  const found = name.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  return new Set([...found, ...found.slice(1).map((word, place) => `${found[place]} ${word}`)]);
}
