/** Mistakes that ports of samplers make, as switches: each replaces one stage, the model or the vocabulary. */

import type { Rng } from "firstdiff";
import { kernel, mapRows, noiseSchedule, type Shape, type Stages } from "./sampler";

export interface Fault {
  readonly id: string;
  readonly label: string;
  /** The stage it replaces. */
  readonly stages?: Partial<Stages>;
  /** The model file that is loaded in place of model.onnx. */
  readonly modelFile?: string;
  readonly logits?: (logits: Float32Array) => Float32Array;
  readonly vocab?: (vocab: readonly string[]) => readonly string[];
  readonly shape?: (shape: Shape) => Shape;
}

export const FAULTS: readonly Fault[] = [
  {
    id: "stagger-sign",
    label: "Stagger: wrong sign",
    stages: {
      stagger(score, deltaSigma, vocabSize) {
        const keep = Math.exp(-deltaSigma);
        return mapRows(score, vocabSize, (value, sum) => (value + ((1 - keep) / vocabSize) * sum) / keep);
      },
    },
  },
  {
    id: "stagger-order",
    label: "Stagger: divided before subtracting",
    stages: {
      stagger(score, deltaSigma, vocabSize) {
        const keep = Math.exp(-deltaSigma);
        return mapRows(score, vocabSize, (value, sum) => value / keep - ((1 - keep) / vocabSize) * sum);
      },
    },
  },
  {
    id: "stagger-integer",
    label: "Stagger: integer division",
    stages: {
      stagger(score, deltaSigma, vocabSize) {
        const keep = Math.exp(-deltaSigma);
        return mapRows(score, vocabSize, (value, sum) => (value - Math.floor((1 - keep) / vocabSize) * sum) / keep);
      },
    },
  },
  {
    id: "transition-diagonal",
    label: "Transition: diagonal without redraws",
    stages: {
      transition(ids, deltaSigma, vocabSize) {
        const keep = Math.exp(-deltaSigma);
        return kernel(ids, vocabSize, (1 - keep) / vocabSize, keep);
      },
    },
  },
  {
    id: "transition-vocab",
    label: "Transition: vocabulary off by one",
    stages: {
      transition(ids, deltaSigma, vocabSize) {
        const keep = Math.exp(-deltaSigma);
        const redrawn = (1 - keep) / (vocabSize - 1);
        return kernel(ids, vocabSize, redrawn, keep + redrawn);
      },
    },
  },
  {
    id: "transition-unnormalised",
    label: "Transition: not normalised",
    stages: {
      transition(ids, deltaSigma, vocabSize) {
        const keep = Math.exp(-deltaSigma);
        return kernel(ids, vocabSize, 1 - keep, keep + (1 - keep));
      },
    },
  },
  {
    id: "draw-cumulative",
    label: "Sampling: bad cumulative sum",
    stages: {
      draw(probs, gumbel, vocabSize) {
        // the inverse of a sum that forgets to add up, so the first large enough probability wins
        return Int32Array.from({ length: probs.length / vocabSize }, (_, position) => {
          const start = position * vocabSize;
          const threshold = Math.exp(-Math.exp(-gumbel[start]!));
          const chosen = probs.subarray(start, start + vocabSize).findIndex((value) => value >= threshold);
          return chosen < 0 ? vocabSize - 1 : chosen;
        });
      },
    },
  },
  {
    id: "draw-constant",
    label: "Sampling: generator does not vary",
    stages: {
      gumbel(rng: Rng, count: number) {
        rng.position = 0;
        return rng.fillGumbel(new Float64Array(count));
      },
    },
  },
  {
    id: "schedule-bounds",
    label: "Schedule: other bounds",
    stages: { schedule: (steps) => noiseSchedule(steps, 1e-4, 20) },
  },
  {
    id: "schedule-steps",
    label: "Schedule: one step too few",
    stages: { schedule: (steps, low, high) => noiseSchedule(Math.max(steps - 1, 1), low, high) },
  },
  {
    id: "schedule-last",
    label: "Schedule: last step keeps noise",
    stages: {
      schedule(steps, low, high) {
        const schedule = noiseSchedule(steps, low, high);
        const deltaSigma = schedule.deltaSigma.slice();
        deltaSigma[steps] = deltaSigma[steps - 1]!;
        return { ...schedule, deltaSigma };
      },
    },
  },
  { id: "vocab-permuted", label: "Vocabulary: permuted", vocab: (vocab) => [...vocab.slice(1), vocab[0]!] },
  {
    id: "vocab-size",
    label: "Vocabulary: another size",
    shape: (shape) => ({ ...shape, vocabSize: shape.vocabSize - 1 }),
  },
  { id: "heads", label: "Model: wrong number of heads", modelFile: "faulty/heads.onnx" },
  { id: "sigma-integer", label: "Model: sigma passed as int", stages: { sigmaInput: Math.trunc } },
  { id: "logits-float16", label: "Model: float16 logits", logits: (logits) => logits.map(roundToFloat16) },
  { id: "stale-model", label: "Model: an old one from the cache", modelFile: "faulty/stale.onnx" },
];

/** Return the stages with the faults' own in place. */
export function withFaults(stages: Stages, faults: readonly Fault[]): Stages {
  return Object.assign({}, stages, ...faults.map((fault) => fault.stages ?? {})) as Stages;
}

/** Round to the nearest value that float16 holds; enough for numbers below 65504. */
export function roundToFloat16(value: number): number {
  if (!Number.isFinite(value) || value === 0) return value;
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(value))), -14);
  const unit = 2 ** (exponent - 10);
  const scaled = value / unit;
  const low = Math.floor(scaled);
  const tie = scaled - low === 0.5;
  return (tie ? low + (low % 2 === 0 ? 0 : 1) : Math.round(scaled)) * unit;
}
