/** What runs in browsers and in Node alike; `firstdiff/node` adds folders on disk. */

export { FirstdiffError, toTensor, type OrtTensor, type Tensor, type TensorLike, type TypedArray } from "./dtypes.js";
export { Golden, openGolden, type GoldenEntry } from "./golden.js";
export { readNpy, writeNpy } from "./npy.js";
export { readNpz, writeNpz } from "./npz.js";
export {
  Recorder,
  ZipRecorder,
  type RecorderOptions,
  type Role,
  type TapOptions,
  type TraceStore,
} from "./recorder.js";
export { philox4x32, Rng } from "./rng.js";
export type { Posted, PostOptions } from "./upload.js";
export {
  Validator,
  type CheckResult,
  type Difference,
  type Divergence,
  type Status,
  type Summary,
  type ValidatorOptions,
} from "./validator.js";
