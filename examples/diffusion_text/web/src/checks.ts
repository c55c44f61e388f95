/** What holds at every step of a correct sampler; invariants.py is the same in Python. */

import type { Schedule, Step } from "./sampler";

export interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
}

const TYPICAL_LOGIT = 10;
const LEAST_DEVIATION = 0.1;

export function range(values: ArrayLike<number>): { min: number; max: number; infinite: number } {
  let [min, max, infinite] = [Infinity, -Infinity, 0];
  for (let index = 0; index < values.length; index++) {
    const value = values[index]!;
    if (!Number.isFinite(value)) infinite++;
    else {
      min = Math.min(min, value);
      max = Math.max(max, value);
    }
  }
  return { min, max, infinite };
}

export function checkLogits(logits: Float32Array, blockSize: number, vocabSize: number): Check[] {
  const { min, max, infinite } = range(logits);
  const largest = Math.max(Math.abs(min), Math.abs(max));
  const spread = meanDeviation(logits, vocabSize);
  return [
    {
      name: "logits have the model's shape",
      ok: logits.length === blockSize * vocabSize,
      detail: `${logits.length} values, expected 1 × ${blockSize} × ${vocabSize}`,
    },
    { name: "logits are float32", ok: logits instanceof Float32Array, detail: logits.constructor.name },
    { name: "logits are finite", ok: infinite === 0, detail: `${infinite} are not` },
    { name: `logits are within ±${TYPICAL_LOGIT}`, ok: largest <= TYPICAL_LOGIT, detail: `${show(min)} to ${show(max)}` },
    {
      name: "logits are not nearly uniform",
      ok: spread > LEAST_DEVIATION,
      detail: `mean deviation over the vocabulary ${show(spread)}`,
    },
  ];
}

export function checkStep(step: Step, vocabSize: number): Check[] {
  const score = range(step.score);
  const currentError = Math.max(...Array.from(step.ids, (id, position) => Math.abs(step.score[position * vocabSize + id]! - 1)));
  const probs = range(step.probs);
  const ids = range(step.sampled);
  const transitionError = rowSumError(step.transition, vocabSize);
  const probsError = rowSumError(step.probs, vocabSize);
  return [
    { name: "scores are finite", ok: score.infinite === 0, detail: `${score.infinite} are not` },
    { name: "scores are positive", ok: score.min > 0, detail: `smallest ${show(score.min)}` },
    { name: "the score of the current character is 1", ok: currentError < 1e-5, detail: `largest error ${show(currentError)}` },
    { name: "transitions sum to 1", ok: transitionError < 1e-9, detail: `largest error ${show(transitionError)}` },
    { name: "probabilities are positive", ok: probs.min > 0 && probs.infinite === 0, detail: `smallest ${show(probs.min)}` },
    { name: "probabilities sum to 1", ok: probsError < 1e-3, detail: `largest error ${show(probsError)}` },
    { name: "sampled ids are in the vocabulary", ok: ids.min >= 0 && ids.max < vocabSize, detail: `${ids.min} to ${ids.max}` },
  ];
}

export function checkSchedule({ sigma, deltaSigma }: Schedule): Check[] {
  const last = deltaSigma.length - 1;
  const smallest = range(deltaSigma).min;
  const falls = deltaSigma.slice(0, last).every((value, index, all) => index === 0 || value < all[index - 1]!);
  return [
    { name: "delta sigma is positive", ok: smallest > 0, detail: `smallest ${show(smallest)}` },
    { name: "delta sigma decreases until the last step", ok: falls, detail: `${show(deltaSigma[0]!)} to ${show(deltaSigma[last - 1] ?? NaN)}` },
    {
      name: "the last step removes all noise",
      ok: deltaSigma[last] === sigma[last],
      detail: `${show(deltaSigma[last]!)} of ${show(sigma[last]!)}`,
    },
  ];
}

export function checkDraws(before: Float64Array, after: Float64Array): Check {
  const repeated = after.every((value, index) => value === before[index]);
  return { name: "the generator varies between steps", ok: !repeated, detail: repeated ? "a step repeats the draws before" : "draws differ" };
}

export function show(value: number): string {
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(1);
  return Number.isFinite(value) ? String(Number(value.toPrecision(4))) : String(value);
}

function rowSumError(values: Float64Array, width: number): number {
  let largest = 0;
  for (let start = 0; start < values.length; start += width) {
    let sum = 0;
    for (let index = start; index < start + width; index++) sum += values[index]!;
    largest = Math.max(largest, Number.isNaN(sum) ? Infinity : Math.abs(sum - 1));
  }
  return largest;
}

function meanDeviation(values: Float32Array, width: number): number {
  let total = 0;
  for (let start = 0; start < values.length; start += width) {
    const row = values.subarray(start, start + width);
    const mean = row.reduce((sum, value) => sum + value, 0) / width;
    total += Math.sqrt(row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / width);
  }
  return (total * width) / values.length;
}
