/** `.npz`: a zip of `.npy` files, one for each name. */

import { FirstdiffError, toTensor, type Tensor, type TensorLike } from "./dtypes.js";
import { readNpy, writeNpy } from "./npy.js";
import { join, readZip, writeZip } from "./zip.js";

const SUFFIX = ".npy";

/** Return the bytes of an uncompressed `.npz`. A name that could be taken for a path is percent-encoded. */
export function writeNpz(tensors: Readonly<Record<string, TensorLike>> | ReadonlyMap<string, TensorLike>): Uint8Array {
  const entries = tensors instanceof Map ? [...tensors] : Object.entries(tensors);
  return join(
    writeZip(
      entries.map(([name, value]) => ({
        name: encodeName(name) + SUFFIX,
        parts: [writeNpy(toTensor(name, value as TensorLike))],
      })),
    ),
  );
}

/** Read a `.npz`, stored or deflated, into tensors by name. */
export async function readNpz(bytes: Uint8Array, label = "the .npz"): Promise<Map<string, Tensor>> {
  const tensors = new Map<string, Tensor>();
  for (const [member, content] of await readZip(bytes, label)) {
    if (!member.endsWith(SUFFIX)) throw new FirstdiffError(`${label}: the member ${member} is no .npy`);
    tensors.set(decodeName(member.slice(0, -SUFFIX.length)), readNpy(content, `${label}/${member}`));
  }
  return tensors;
}

/** Encode what could make a path of a name: separators, drives, control characters, and dots alone. */
export function encodeName(name: string): string {
  const encoded = name.replace(/[%/\\:\u0000-\u001f\u007f]/g, percent);
  return /^\.*$/.test(encoded) ? encoded.replace(/\./g, percent) || "%" : encoded;
}

export function decodeName(encoded: string): string {
  return encoded === "%" ? "" : encoded.replace(/%([0-7][0-9A-F])/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}
