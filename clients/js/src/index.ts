/** What runs in browsers and in Node alike; `firstdiff/node` adds folders on disk. */

export { FirstdiffError, toTensor, type OrtTensor, type Tensor, type TensorLike, type TypedArray } from "./dtypes.js";
export { readNpy, writeNpy } from "./npy.js";
export { philox4x32, Rng } from "./rng.js";
