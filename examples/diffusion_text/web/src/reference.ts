/** What Python computed, as debug_python.py wrote it. */

import { show } from "./checks";
import { type FileSource, type Metadata, ModelError } from "./model";

export interface Statistics {
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly nan: number;
  readonly inf: number;
}

export const TAPS = ["log_score", "score", "staggered_score", "transition", "probs", "gumbel"] as const;
export type Tap = (typeof TAPS)[number];

export interface ReferenceStep extends Readonly<Record<Tap, readonly number[]>> {
  readonly index: number;
  readonly t: number;
  readonly sigma: number;
  readonly delta_sigma: number;
  readonly ids: readonly number[];
  readonly sampled: readonly number[];
  readonly changed: number;
}

export interface TrajectoryStep {
  readonly t: number;
  readonly sigma: number;
  readonly delta_sigma: number;
  readonly changed: number;
  readonly text: string;
  readonly statistics: Readonly<Record<Tap, Statistics>>;
}

export interface Band {
  readonly sigma: number;
  readonly low: number;
  readonly mean: number;
  readonly high: number;
}

/** The least shares to expect, four deviations below the mean of Python's generations. */
export interface Quality {
  readonly real_words: number;
  readonly common_pairs: number;
}

export interface Reference {
  readonly seed: number;
  readonly steps: number;
  readonly step: ReferenceStep;
  readonly trajectory: readonly TrajectoryStep[];
  readonly bands: readonly Band[];
  readonly quality: Quality;
  /** Logits of the same input and weights with another number of heads. */
  readonly other_heads: readonly { readonly heads: number; readonly logits: readonly number[] }[];
}

export interface InferenceReference {
  readonly ids: readonly number[];
  readonly sigma: number;
  readonly position: number;
  readonly top_tokens: readonly { readonly character: string; readonly logit: number }[];
  readonly logits: readonly number[];
}

async function readReport<T extends object>(source: FileSource, name: string, keys: readonly (keyof T & string)[]): Promise<T | null> {
  const bytes = await source(name);
  if (!bytes) return null;
  let report: Partial<T> | null;
  try {
    report = JSON.parse(new TextDecoder().decode(bytes)) as Partial<T> | null;
  } catch {
    throw new ModelError(`${name} is not valid JSON: run debug_python.py again.`);
  }
  const missing = keys.filter((key) => report?.[key] === undefined);
  if (missing.length) throw new ModelError(`${name} has no ${missing.join(", ")}: run debug_python.py again.`);
  return report as T;
}

export const loadReference = (source: FileSource): Promise<Reference | null> =>
  readReport<Reference>(source, "debug_step_output.json", ["seed", "steps", "step", "trajectory", "bands", "quality", "other_heads"]);

export const loadInferenceReference = (source: FileSource): Promise<InferenceReference | null> =>
  readReport<InferenceReference>(source, "debug_onnx_output.json", ["ids", "sigma", "logits"]);

/** Throw where Python's values are of a model of another size. */
export function checkSizes({ step }: Reference, { block_size, vocab_size }: Metadata): void {
  const [block, vocab] = [step.ids.length, step.probs.length / step.ids.length];
  if (block === block_size && vocab === vocab_size) return;
  throw new ModelError(
    `debug_step_output.json has ${block} characters of a vocabulary of ${show(vocab)}, but the model has ${block_size} of ${vocab_size}: run debug_python.py again.`,
  );
}

/** Return the words of the training text; none where the list is not beside the model. */
export async function loadWords(source: FileSource): Promise<Set<string>> {
  const bytes = await source("words.txt");
  return new Set(bytes ? new TextDecoder().decode(bytes).split(/\s+/).filter(Boolean) : []);
}
