/** Judge a generated text and how it came about: what it looks like, and which part to suspect. */

import { show } from "./checks";
import type { Band, Quality } from "./reference";

export interface Verdict {
  readonly kind: "nonfinite" | "repeated" | "loop" | "unchanged" | "noise" | "nonsense" | "improving" | "unknown";
  readonly sentence: string;
  /** The part of the sampler to look at; empty where all is well. */
  readonly suspect: string;
  readonly realWords: number;
  readonly commonPairs: number;
}

const MIN_LETTERS = 3;
const COMMON_PAIRS = 100;
// of English text spaces are a sixth, and no letter is more than an eighth; a hundred characters vary by half of that
const MOST_OF_ONE = 0.3;
const MOST_OF_ONE_LETTER = 0.24;

export function words(text: string): string[] {
  return (text.toLowerCase().match(/\p{L}+/gu) ?? []).filter((word) => word.length >= MIN_LETTERS);
}

export function realWordShare(text: string, known: ReadonlySet<string>): number {
  const all = words(text);
  return all.length ? all.filter((word) => known.has(word)).length / all.length : 0;
}

/** Return the commonest pairs of letters in a list of words. */
export function commonPairs(known: Iterable<string>): Set<string> {
  const counts = new Map<string, number>();
  for (const word of known) {
    for (let index = 1; index < word.length; index++) {
      const pair = word.slice(index - 1, index + 1);
      counts.set(pair, (counts.get(pair) ?? 0) + 1);
    }
  }
  const sorted = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return new Set(sorted.slice(0, COMMON_PAIRS).map(([pair]) => pair));
}

/** Return the share of neighbouring letters that are a common pair; spaces and signs do not count. */
export function commonPairShare(text: string, pairs: ReadonlySet<string>): number {
  const found = [...text.toLowerCase().matchAll(/(?=(\p{L}\p{L}))/gu)].map((match) => match[1]!);
  return found.length ? found.filter((pair) => pairs.has(pair)).length / found.length : 0;
}

/** What a generation did. */
export interface Generation {
  /** The noise before the first step, then the text after every step. */
  readonly texts: readonly string[];
  /** The share of characters that each step changed. */
  readonly changed: readonly number[];
  /** The first step whose logits are not finite. */
  readonly nonFinite: number | undefined;
}

/** Judge a generation by what Python's generations are like. */
export function judge(
  { texts, changed, nonFinite }: Generation,
  bands: readonly Band[],
  quality: Quality,
  known: ReadonlySet<string>,
): Verdict {
  const [first, last] = [texts[0]!, texts.at(-1)!];
  const realWords = realWordShare(last, known);
  const pairs = commonPairShare(last, commonPairs(known));
  const make = (kind: Verdict["kind"], sentence: string, suspect: string): Verdict => ({ kind, sentence, suspect, realWords, commonPairs: pairs });

  if (nonFinite !== undefined) {
    return make("nonfinite", `the logits of step ${nonFinite + 1} are not finite`, "model: its inputs, above all sigma");
  }
  const [character, share] = commonest(last);
  if (share > MOST_OF_ONE || (character.trim() && share > MOST_OF_ONE_LETTER)) {
    return make("repeated", `${percent(share)} of the text is ${JSON.stringify(character)}`, "sampling: how a character is drawn");
  }
  const all = words(last);
  const different = new Set(all).size;
  if (all.length >= 8 && different <= 0.35 * all.length) {
    return make("loop", `${all.length} words, only ${different} different ones`, "sampling: the generator repeats itself");
  }
  const kept = [...last].filter((each, index) => each === first[index]).length / last.length;
  const total = sum(changed);
  const usual = sum(bands.map((band) => band.mean));
  if (kept > 0.5 || total < 0.6 * usual) {
    const sentence = `${percent(kept)} of the noise is still there, after ${show(total)} changes a character in place of ${show(usual)}`;
    return make("unchanged", sentence, "transition kernel, delta sigma, or a generator that does not vary");
  }
  if (!known.size) return make("unknown", "words.txt is not beside the model, so its words cannot be counted", "");
  // names and rare words lower the share of common pairs, but noise has no real words
  if (realWords >= quality.real_words) return make("improving", `${percent(realWords)} of words are real ones`, "");
  if (pairs < quality.common_pairs) {
    const tooMany = changed.filter((value, index) => bands[index] && value > bands[index].high).length;
    return tooMany > changed.length / 4
      ? make("nonsense", `${tooMany} of ${changed.length} steps change more than Python's ever do`, "score, transition kernel or schedule")
      : make("noise", `${percent(pairs)} of letter pairs are common ones, Python has ${percent(quality.common_pairs)} at least`, "model: its weights, its inputs, or the vocabulary");
  }
  return make("nonsense", `${percent(realWords)} of words are real ones, Python has ${percent(quality.real_words)} at least`, "model or score");
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function commonest(text: string): [string, number] {
  const counts = new Map<string, number>();
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  const [character, count] = [...counts].reduce((best, entry) => (entry[1] > best[1] ? entry : best), ["", 0]);
  return [character, count / text.length];
}

function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}
