/** What Python computed, as debug_python.py wrote it. */

import { type FileSource, ModelError } from "./model";

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

/** The least shares that Python's generations had. */
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

async function readReport<T>(source: FileSource, name: string): Promise<T | null> {
  const bytes = await source(name);
  if (!bytes) return null;
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as T;
  } catch {
    throw new ModelError(`${name} is not valid JSON: run debug_python.py again.`);
  }
}

export const loadReference = (source: FileSource): Promise<Reference | null> =>
  readReport<Reference>(source, "debug_step_output.json");

export const loadInferenceReference = (source: FileSource): Promise<InferenceReference | null> =>
  readReport<InferenceReference>(source, "debug_onnx_output.json");

/** Return the words of the training text; none where the list is not beside the model. */
export async function loadWords(source: FileSource): Promise<Set<string>> {
  const bytes = await source("words.txt");
  return new Set(bytes ? new TextDecoder().decode(bytes).split(/\s+/).filter(Boolean) : []);
}
