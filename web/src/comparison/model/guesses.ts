import type { TensorLine } from "./types";

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
