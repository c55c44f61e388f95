/**
 * Sample text by reversing the noise step by step; sampler.py is the same code in Python.
 *
 * Stages are functions of their own, so that a fault can replace one and a debugger can look at each.
 * Arrays of [block, vocab] are flat, in C order; everything after the model is float64.
 */

import { Rng, type Recorder } from "firstdiff";

// probabilities never reach 0, where their logarithm would be lost
const MIN_PROBABILITY = 1e-12;

/** The model: ids and sigma to log-scores [block, vocab]. */
export type LogScores = (ids: Int32Array, sigma: number) => Promise<Float32Array>;

/** Times, noise levels and the noise that each step removes; the last step removes all that is left. */
export interface Schedule {
  readonly t: Float64Array;
  readonly sigma: Float64Array;
  readonly deltaSigma: Float64Array;
}

/** One denoising step with everything computed on the way. */
export interface Step {
  readonly index: number;
  readonly t: number;
  readonly sigma: number;
  readonly deltaSigma: number;
  readonly ids: Int32Array;
  readonly logScore: Float32Array;
  readonly score: Float64Array;
  readonly staggeredScore: Float64Array;
  readonly transition: Float64Array;
  readonly probs: Float64Array;
  readonly gumbel: Float64Array;
  readonly sampled: Int32Array;
  /** The share of characters that this step changed. */
  readonly changed: number;
}

export interface Shape {
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly sigmaMin: number;
  readonly sigmaMax: number;
}

export interface GenerateOptions {
  readonly seed: number;
  readonly steps: number;
  readonly fixed?: ReadonlyMap<number, number>;
  readonly temperature?: number;
  readonly recorder?: Recorder;
}

/** What a step is made of. */
export interface Stages {
  schedule(steps: number, sigmaMin: number, sigmaMax: number): Schedule;
  sigmaInput(sigma: number): number;
  expScores(logScore: Float32Array, temperature: number): Float64Array;
  stagger(score: Float64Array, deltaSigma: number, vocabSize: number): Float64Array;
  transition(ids: Int32Array, deltaSigma: number, vocabSize: number): Float64Array;
  gumbel(rng: Rng, count: number): Float64Array;
  draw(probs: Float64Array, gumbel: Float64Array, vocabSize: number): Int32Array;
}

export function noiseSchedule(steps: number, sigmaMin: number, sigmaMax: number): Schedule {
  if (!Number.isInteger(steps) || steps < 1) throw new Error(`steps is ${steps}; a whole number from 1 on was expected`);
  const t = Float64Array.from({ length: steps + 1 }, (_, index) => 1 - index / steps);
  const sigma = t.map((value) => sigmaMin ** (1 - value) * sigmaMax ** value);
  const deltaSigma = sigma.map((value, index) => (index < steps ? value - sigma[index + 1]! : value));
  return { t, sigma, deltaSigma };
}

export function expScores(logScore: Float32Array, temperature: number): Float64Array {
  return Float64Array.from(logScore, (value) => Math.exp(value / temperature));
}

/** Return the ratios p_s(y) / p_t(x_t) of the less noisy level s, deltaSigma below t. */
export function stagger(score: Float64Array, deltaSigma: number, vocabSize: number): Float64Array {
  const keep = Math.exp(-deltaSigma);
  return mapRows(score, vocabSize, (value, sum) => (value - ((1 - keep) / vocabSize) * sum) / keep);
}

/** Return the probability that each character y becomes x_t when deltaSigma of noise is added. */
export function transitionKernel(ids: Int32Array, deltaSigma: number, vocabSize: number): Float64Array {
  const keep = Math.exp(-deltaSigma);
  return kernel(ids, vocabSize, (1 - keep) / vocabSize, keep + (1 - keep) / vocabSize);
}

export function multiply(staggered: Float64Array, transition: Float64Array): Float64Array {
  return staggered.map((value, index) => Math.max(value * transition[index]!, MIN_PROBABILITY));
}

export function drawGumbel(rng: Rng, count: number): Float64Array {
  return rng.fillGumbel(new Float64Array(count));
}

/** Draw one character per position: the largest of log-probability plus Gumbel noise. */
export function draw(probs: Float64Array, gumbel: Float64Array, vocabSize: number): Int32Array {
  const sampled = new Int32Array(probs.length / vocabSize);
  for (let position = 0; position < sampled.length; position++) {
    let best = -Infinity;
    for (let id = 0; id < vocabSize; id++) {
      const index = position * vocabSize + id;
      const value = Math.log(probs[index]!) + gumbel[index]!;
      if (value > best) {
        best = value;
        sampled[position] = id;
      }
    }
  }
  return sampled;
}

export const STAGES: Stages = {
  schedule: noiseSchedule,
  sigmaInput: Math.fround,
  expScores,
  stagger,
  transition: transitionKernel,
  gumbel: drawGumbel,
  draw,
};

/** Generates ids with a model. */
export class Sampler {
  constructor(
    private readonly logScores: LogScores,
    private readonly shape: Shape,
    private readonly stages: Stages = STAGES,
  ) {}

  /** Yield the steps of one sample. */
  async *generate(options: GenerateOptions): AsyncGenerator<Step> {
    const { seed, steps, fixed = new Map(), recorder } = options;
    const { vocabSize, blockSize, sigmaMin, sigmaMax } = this.shape;
    const schedule = this.stages.schedule(steps, sigmaMin, sigmaMax);
    const levels = [schedule.sigma.length];
    recorder?.tap("schedule.t", schedule.t, levels);
    recorder?.tap("schedule.sigma", schedule.sigma, levels);
    recorder?.tap("schedule.delta_sigma", schedule.deltaSigma, levels);
    const rng = new Rng(seed);
    let ids = keepFixed(rng.fillIntegers(new Int32Array(blockSize), 0, vocabSize), fixed);
    for (let index = 0; index < schedule.t.length; index++) {
      const gumbel = this.stages.gumbel(rng, blockSize * vocabSize);
      const step = await this.denoise(index, schedule, ids, gumbel, options);
      yield step;
      ids = step.sampled;
    }
  }

  /** Take one denoising step from `ids`. */
  async denoise(
    index: number,
    schedule: Schedule,
    ids: Int32Array,
    gumbel: Float64Array,
    options: Omit<GenerateOptions, "seed" | "steps"> = {},
  ): Promise<Step> {
    const { fixed = new Map(), temperature = 1, recorder } = options;
    const { vocabSize, blockSize } = this.shape;
    const sigma = schedule.sigma[index]!;
    const deltaSigma = schedule.deltaSigma[index]!;
    const sigmaInput = this.stages.sigmaInput(sigma);
    const logScore = await this.logScores(ids, sigmaInput);
    const score = this.stages.expScores(logScore, temperature);
    const staggeredScore = this.stages.stagger(score, deltaSigma, vocabSize);
    const transition = this.stages.transition(ids, deltaSigma, vocabSize);
    const probs = multiply(staggeredScore, transition);
    const sampled = keepFixed(this.stages.draw(probs, gumbel, vocabSize), fixed);
    if (recorder) {
      const cells = { shape: [1, blockSize, vocabSize], step: index, dims: "b s v" };
      const row = { shape: [1, blockSize], step: index, dims: "b s" };
      recorder.tap("ids", BigInt64Array.from(ids, BigInt), row);
      recorder.tap("sigma", Float32Array.of(sigmaInput), { shape: [1], step: index });
      recorder.tap("log_score", logScore, cells);
      recorder.tap("score", score, cells);
      recorder.tap("staggered_score", staggeredScore, cells);
      recorder.tap("transition", transition, cells);
      recorder.tap("probs", probs, cells);
      recorder.tap("gumbel", gumbel, cells);
      recorder.tap("sampled", BigInt64Array.from(sampled, BigInt), row);
    }
    const changed = sampled.reduce((count, id, position) => count + Number(id !== ids[position]), 0) / blockSize;
    return {
      index,
      t: schedule.t[index]!,
      sigma,
      deltaSigma,
      ids,
      logScore,
      score,
      staggeredScore,
      transition,
      probs,
      gumbel,
      sampled,
      changed,
    };
  }
}

/** Return the id at each position that a prefix and a suffix keep. */
export function fixedCharacters(prefix: string, suffix: string, vocab: readonly string[], blockSize: number): Map<number, number> {
  const [head, tail] = [[...prefix], [...suffix]];
  const unknown = [...new Set([...head, ...tail])].filter((character) => !vocab.includes(character));
  if (unknown.length) {
    const names = unknown.map((character) => JSON.stringify(character)).join(", ");
    throw new Error(`the vocabulary has no ${names}: leave them out of the prefix`);
  }
  if (head.length + tail.length > blockSize) {
    throw new Error(`the text to keep has ${head.length + tail.length} characters, but the model writes ${blockSize} in all`);
  }
  const places = [...head.entries(), ...tail.map((character, index) => [blockSize - tail.length + index, character] as const)];
  return new Map(places.map(([position, character]) => [position, vocab.indexOf(character)]));
}

export function decode(ids: Int32Array, vocab: readonly string[]): string {
  return Array.from(ids, (id) => vocab[id] ?? "�").join("");
}

/** Return values computed from each cell and the sum of its row. */
export function mapRows(
  values: Float64Array,
  width: number,
  compute: (value: number, rowSum: number) => number,
): Float64Array {
  const result = new Float64Array(values.length);
  for (let start = 0; start < values.length; start += width) {
    let sum = 0;
    for (let index = start; index < start + width; index++) sum += values[index]!;
    for (let index = start; index < start + width; index++) result[index] = compute(values[index]!, sum);
  }
  return result;
}

/** Return a kernel with one value at the current characters and another elsewhere. */
export function kernel(ids: Int32Array, vocabSize: number, elsewhere: number, current: number): Float64Array {
  const result = new Float64Array(ids.length * vocabSize).fill(elsewhere);
  ids.forEach((id, position) => (result[position * vocabSize + id] = current));
  return result;
}

function keepFixed(ids: Int32Array, fixed: ReadonlyMap<number, number>): Int32Array {
  for (const [position, id] of fixed) ids[position] = id;
  return ids;
}
