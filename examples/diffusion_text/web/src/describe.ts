/** Lines of the debugger's log: distributions of a stage, its values at one position, and what happens at each. */

import { range, show } from "./checks";
import type { Step } from "./sampler";

/** The stages of a step that have one number for every character of the vocabulary. */
export function stagesOf(step: Step): readonly (readonly [string, ArrayLike<number>])[] {
  return [
    ["log_score", step.logScore],
    ["score", step.score],
    ["staggered_score", step.staggeredScore],
    ["transition", step.transition],
    ["probs", step.probs],
  ];
}

export function distribution(tap: string, values: ArrayLike<number>): string {
  const { min, max, infinite } = range(values);
  const finite = Array.from(values).filter(Number.isFinite);
  const mean = finite.reduce((sum, value) => sum + value, 0) / finite.length;
  const std = Math.sqrt(finite.reduce((sum, value) => sum + (value - mean) ** 2, 0) / finite.length);
  return `${tap}: min ${show(min)}, max ${show(max)}, mean ${show(mean)}, std ${show(std)}, ${infinite} not finite`;
}

/** Return the largest values at a position with their characters. */
export function largestAt(values: ArrayLike<number>, position: number, vocab: readonly string[], vocabSize: number, count: number): string {
  const cells = Array.from({ length: vocabSize }, (_, id) => [id, values[position * vocabSize + id]!] as const);
  const top = cells.sort((a, b) => b[1] - a[1]).slice(0, count);
  return top.map(([id, value]) => `${character(id, vocab)} ${show(value)}`).join(", ");
}

/** Return what a step makes of each position: the character before and after, and how likely that one was. */
export function eachPosition(step: Step, vocab: readonly string[], vocabSize: number): string[] {
  return Array.from(step.sampled, (id, position) => {
    const before = step.ids[position]!;
    const became = id === before ? "stays" : `becomes ${character(id, vocab)}`;
    return `position ${position}: ${character(before, vocab)} ${became}, probability ${show(step.probs[position * vocabSize + id]!)}`;
  });
}

function character(id: number, vocab: readonly string[]): string {
  return JSON.stringify(vocab[id] ?? "?");
}
