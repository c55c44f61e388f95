/**
 * Name the first stage of a step that differs from Python's, and why.
 *
 * Every explanation is tested on values: the stage is computed from the candidate's own inputs as a known mistake would,
 * and the mistake is named where that gives what the candidate has.
 */

import { show } from "./checks";
import { roundToFloat16 } from "./faults";
import type { Reference } from "./reference";
import { kernel, mapRows, type Schedule, type Step } from "./sampler";

export interface Difference {
  readonly tap: string;
  readonly detail: string;
}

export interface Cause {
  readonly code: string;
  readonly tap: string;
  readonly evidence: string;
}

export interface Candidate {
  readonly step: Step;
  readonly schedule: Schedule;
  readonly sigmaInput: number;
  readonly vocabSize: number;
  readonly text: string;
  readonly modelWarnings: readonly string[];
}

// runtimes differ by about 1e-6 in logits of size 10, and the stages after the model add nothing to that
const TOLERANCE = 1e-4;
const EXACT = 1e-9;

/** Return the stages that differ, in the order in which they are computed. */
export function differences(candidate: Candidate, reference: Reference, referenceText: string): Difference[] {
  const { step, schedule } = candidate;
  const wanted = reference.step;
  const found: Difference[] = [];
  const compare = (tap: string, values: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number): void => {
    if (values.length !== expected.length) {
      found.push({ tap, detail: `${values.length} values, Python has ${expected.length}` });
      return;
    }
    const { error, at } = largestError(values, expected);
    if (!(error <= tolerance)) found.push({ tap, detail: `${show(values[at]!)} at ${at}, Python has ${show(expected[at]!)}` });
  };
  compare("vocab_size", [candidate.vocabSize], [wanted.probs.length / wanted.ids.length], 0);
  compare("schedule.t", schedule.t, reference.trajectory.map((row) => row.t), EXACT);
  compare("schedule.sigma", schedule.sigma, reference.trajectory.map((row) => row.sigma), EXACT);
  compare("schedule.delta_sigma", schedule.deltaSigma, reference.trajectory.map((row) => row.delta_sigma), EXACT);
  compare("ids", step.ids, wanted.ids, 0);
  compare("sigma", [candidate.sigmaInput], [Math.fround(wanted.sigma)], 0);
  compare("log_score", step.logScore, wanted.log_score, TOLERANCE);
  compare("score", step.score, wanted.score, TOLERANCE);
  compare("staggered_score", step.staggeredScore, wanted.staggered_score, TOLERANCE);
  compare("transition", step.transition, wanted.transition, EXACT);
  compare("probs", step.probs, wanted.probs, TOLERANCE);
  compare("gumbel", step.gumbel, wanted.gumbel, 0);
  compare("sampled", step.sampled, wanted.sampled, 0);
  if (found.length === 0 && candidate.text !== referenceText) {
    found.push({ tap: "text", detail: `${JSON.stringify(candidate.text.slice(0, 20))}, Python has ${JSON.stringify(referenceText.slice(0, 20))}` });
  }
  return found;
}

/** Return the cause of the first difference; null where nothing differs. */
export function diagnose(candidate: Candidate, reference: Reference, found: readonly Difference[]): Cause | null {
  const first = found[0];
  if (!first) return null;
  const cause = CAUSES[first.tap]?.(candidate, reference);
  return { tap: first.tap, ...(cause ?? { code: "unknown", evidence: `${first.tap} is the first to differ: ${first.detail}` }) };
}

type Explain = (candidate: Candidate, reference: Reference) => Omit<Cause, "tap"> | undefined;

const CAUSES: Readonly<Record<string, Explain>> = {
  vocab_size: ({ vocabSize }, { step }) => ({
    code: "vocab.mismatch",
    evidence: `the sampler counts ${vocabSize} characters, the model has ${step.probs.length / step.ids.length}`,
  }),
  "schedule.t": ({ schedule }, { trajectory }) => ({
    code: "loop.steps",
    evidence: `the loop has ${schedule.t.length} steps, Python's has ${trajectory.length}`,
  }),
  "schedule.sigma": ({ schedule: { sigma } }, { trajectory }) => ({
    code: "noise.schedule",
    evidence:
      `sigma goes from ${show(sigma[0]!)} to ${show(sigma.at(-1)!)}, ` +
      `Python's from ${show(trajectory[0]!.sigma)} to ${show(trajectory.at(-1)!.sigma)}`,
  }),
  "schedule.delta_sigma": ({ schedule: { sigma, deltaSigma } }) => ({
    code: "noise.schedule",
    evidence:
      deltaSigma.at(-1) === sigma.at(-1)
        ? "sigma agrees, but not the noise that steps remove"
        : `the last step removes ${show(deltaSigma.at(-1)!)} of noise, but ${show(sigma.at(-1)!)} is left`,
  }),
  sigma: ({ sigmaInput }, { step }) =>
    sigmaInput === Math.trunc(step.sigma)
      ? { code: "dtype.integer", evidence: `the model is given ${sigmaInput}, the whole part of ${show(step.sigma)}` }
      : { code: "noise.schedule", evidence: `the model is given ${show(sigmaInput)} in place of ${show(step.sigma)}` },
  log_score: explainLogits,
  score: () => ({ code: "score.exponential", evidence: "the logits agree, but not their exponential: look for a temperature or another base" }),
  staggered_score: explainStagger,
  transition: explainTransition,
  probs: () => ({ code: "transition.kernel", evidence: "staggered score and transition agree, but not their product" }),
  gumbel: ({ step }) => ({
    code: "sampling.draw",
    evidence: step.index ? "the draws are not those of this seed and step: the generator was reset, or is another one" : "another generator or seed",
  }),
  sampled: ({ step }, { step: wanted }) => {
    const count = step.sampled.filter((id, position) => id !== wanted.sampled[position]).length;
    return { code: "sampling.draw", evidence: `probabilities and draws agree, but ${count} of ${step.sampled.length} characters are chosen otherwise` };
  },
  text: () => ({ code: "vocab.mismatch", evidence: "all ids agree, but they stand for other characters" }),
  ids: ({ step }, { step: wanted }) => {
    const last = Math.max(...wanted.ids);
    return { code: "ids.mismatch", evidence: `the step begins with other ids, up to ${Math.max(...step.ids)}; Python's go up to ${last}` };
  },
};

function explainLogits(candidate: Candidate, reference: Reference): Omit<Cause, "tap"> | undefined {
  const logits = candidate.step.logScore;
  const wanted = reference.step.log_score;
  const stale = candidate.modelWarnings.find((warning) => warning.startsWith("model.onnx"));
  if (stale) return { code: "weights.differ", evidence: stale };
  if (logits.some((value) => !Number.isFinite(value))) return { code: "values.nonfinite", evidence: "the logits are not finite" };
  const isHalf = logits.every((value) => roundToFloat16(value) === value);
  if (isHalf && !wanted.every((value) => roundToFloat16(value) === value)) {
    return { code: "dtype.fp16", evidence: "every logit is a value that float16 holds" };
  }
  for (const { heads, logits: other } of reference.other_heads) {
    if (largestError(logits, other).error <= TOLERANCE) {
      return { code: "attention.heads", evidence: `the logits are those of the same weights with ${heads} heads` };
    }
  }
  return { code: "weights.differ", evidence: "ids and sigma agree, but not the logits: the model is another one" };
}

function explainStagger({ step, vocabSize }: Candidate): Omit<Cause, "tap"> {
  const keep = Math.exp(-step.deltaSigma);
  const share = (1 - keep) / vocabSize;
  const mistakes: [string, (value: number, sum: number) => number][] = [
    ["the correction is added, not subtracted", (value, sum) => (value + share * sum) / keep],
    ["the score is divided before the correction is subtracted", (value, sum) => value / keep - share * sum],
    ["the correction is 0, as an integer division makes it", (value) => value / keep],
    ["the correction is not divided by the size of the vocabulary", (value, sum) => (value - (1 - keep) * sum) / keep],
    ["the score is not staggered at all", (value) => value],
  ];
  const named = mistakes.find(([, formula]) => agrees(step.staggeredScore, mapRows(step.score, vocabSize, formula)));
  return { code: "score.stagger", evidence: named?.[0] ?? "the score agrees, but not what staggering makes of it" };
}

function explainTransition({ step, vocabSize }: Candidate): Omit<Cause, "tap"> {
  const keep = Math.exp(-step.deltaSigma);
  const share = (1 - keep) / vocabSize;
  const mistakes: [string, number, number][] = [
    ["the diagonal lacks the share of redraws that hit the same character", share, keep],
    ["redraws are divided by one character too few", (1 - keep) / (vocabSize - 1), keep + (1 - keep) / (vocabSize - 1)],
    ["redraws are divided by one character too many", (1 - keep) / (vocabSize + 1), keep + (1 - keep) / (vocabSize + 1)],
    ["redraws are not divided by the size of the vocabulary", 1 - keep, 1],
    ["diagonal and rest are exchanged", keep + share, share],
  ];
  const named = mistakes.find(([, rest, diagonal]) => agrees(step.transition, kernel(step.ids, vocabSize, rest, diagonal)));
  return { code: "transition.kernel", evidence: named?.[0] ?? "another kernel than uniform transitions have" };
}

function agrees(values: Float64Array, made: Float64Array): boolean {
  return largestError(values, made).error <= EXACT;
}

/** Return the largest error, relative for values beyond 1; NaN against a number counts as infinite. */
export function largestError(values: ArrayLike<number>, expected: ArrayLike<number>): { error: number; at: number } {
  let [error, at] = [0, 0];
  if (values.length !== expected.length) return { error: Infinity, at };
  for (let index = 0; index < values.length; index++) {
    const difference = Math.abs(values[index]! - expected[index]!) / Math.max(1, Math.abs(expected[index]!));
    const size = Number.isNaN(difference) ? Infinity : difference;
    if (size > error) [error, at] = [size, index];
  }
  return { error, at };
}
