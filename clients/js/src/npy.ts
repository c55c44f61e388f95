/** `.npy`: numpy's file of one array. Written as numpy writes it, byte for byte; read in every version and order. */

import { dtypeOf, elementsOf, FirstdiffError, nameOfCode, toTensor, type Tensor, type TypedArray } from "./dtypes.js";

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
const ALIGNMENT = 64;
/** numpy leaves room for the first dimension to grow without moving the data */
const GROWTH_DIGITS = 21;
const LITTLE = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** Return the bytes of a `.npy`; bfloat16 and float8 become the unsigned integers of their bits. */
export function writeNpy(tensor: Tensor): Uint8Array {
  const { shape, dtype, data } = toTensor("the array", tensor);
  const header = npyHeader(dtype, shape);
  const out = new Uint8Array(header.length + data.byteLength);
  out.set(header);
  out.set(littleEndianBytes(data), header.length);
  return out;
}

/** Return the bytes before the values. */
export function npyHeader(dtype: string, shape: readonly number[]): Uint8Array {
  const { code } = dtypeOf(dtype);
  const order = code.endsWith("1") && !code.startsWith("c") ? "|" : "<";
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  let text = `{'descr': '${order}${code}', 'fortran_order': False, 'shape': ${tuple}, }`;
  if (shape.length) text += " ".repeat(Math.max(0, GROWTH_DIGITS - String(shape[0]).length));
  const before = MAGIC.length + 4;
  text += " ".repeat(ALIGNMENT - ((before + text.length + 1) % ALIGNMENT)) + "\n";
  if (text.length > 0xffff) throw new FirstdiffError(`a shape of ${shape.length} dimensions does not fit a .npy`);
  const header = new Uint8Array(before + text.length);
  header.set([...MAGIC, 1, 0, text.length & 0xff, text.length >> 8]);
  header.set(new TextEncoder().encode(text), before);
  return header;
}

/**
 * Read a `.npy` into an array of its own; FirstdiffError says what is wrong with the file.
 *
 * label: what errors call it
 * dtype: the true type of values that are stored as raw bits, such as `bfloat16`
 */
export function readNpy(bytes: Uint8Array, label = "the .npy", dtype?: string): Tensor {
  const { code, bigEndian, fortran, shape, start } = readHeader(bytes, label);
  const stored = nameOfCode(code);
  if (!stored) throw new FirstdiffError(`${label}: elements of type ${code} are not supported; numbers were expected`);
  const name = dtype ?? stored;
  if (dtypeOf(name).code !== code) {
    throw new FirstdiffError(`${label}: the values are ${stored}, which cannot hold ${name}`);
  }
  const kind = dtypeOf(name);
  const size = elementsOf(shape) * kind.itemsize;
  if (bytes.length - start < size) {
    throw new FirstdiffError(
      `${label}: the file is cut off: [${shape.join(", ")}] of ${name} takes ${size} bytes, and ${bytes.length - start} are there`,
    );
  }
  // a copy, because the values may begin where no typed array can
  const raw: Uint8Array = copyBytes(bytes.subarray(start, start + size));
  const width = kind.itemsize / kind.parts;
  if (bigEndian === LITTLE && width > 1) swapBytes(raw, width);
  const values = fortran ? fromFortran(raw, kind.itemsize, shape) : raw;
  return { dtype: name, shape, data: new kind.array(values.buffer as ArrayBuffer) };
}

interface Header {
  code: string;
  bigEndian: boolean;
  fortran: boolean;
  shape: number[];
  start: number;
}

function readHeader(bytes: Uint8Array, label: string): Header {
  if (bytes.length < 10 || MAGIC.some((byte, index) => bytes[index] !== byte)) {
    throw new FirstdiffError(`${label}: this is no .npy file, or it is cut off within its first bytes`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const version = bytes[6] as number;
  if (version < 1 || version > 3) throw new FirstdiffError(`${label}: version ${version} of .npy is not known; 1 to 3 are`);
  const before = version === 1 ? 10 : 12;
  const length = version === 1 ? view.getUint16(8, true) : bytes.length < 12 ? Infinity : view.getUint32(8, true);
  if (before + length > bytes.length) throw new FirstdiffError(`${label}: the file is cut off in its header`);
  const text = new TextDecoder().decode(bytes.subarray(before, before + length));
  const descr = /'descr':\s*(?:'([^']*)'|[[(])/.exec(text);
  const order = /'fortran_order':\s*(True|False)/.exec(text);
  const tuple = /'shape':\s*\(([\d\s,L]*)\)/.exec(text);
  if (!descr || !order || !tuple) throw new FirstdiffError(`${label}: the header of the .npy cannot be read: ${text.trim().slice(0, 200)}`);
  if (descr[1] === undefined) throw new FirstdiffError(`${label}: an array of records is not supported; numbers were expected`);
  const shape = (tuple[1] as string).split(",").filter((part) => part.trim()).map((part) => parseInt(part, 10));
  return {
    code: descr[1].replace(/^[<>|=]/, "").replace("?", "b1"),
    bigEndian: descr[1].startsWith(">"),
    fortran: order[1] === "True",
    shape,
    start: before + length,
  };
}

/** Return the bytes of an array as a `.npy` has them; shared with the array where the machine is little-endian. */
export function littleEndianBytes(data: TypedArray): Uint8Array {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (LITTLE || data.BYTES_PER_ELEMENT === 1) return bytes;
  const swapped = copyBytes(bytes);
  swapBytes(swapped, data.BYTES_PER_ELEMENT);
  return swapped;
}

/** Copy bytes into a buffer of their own, which `slice` does not do for Node's Buffer. */
export function copyBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}

function swapBytes(bytes: Uint8Array, width: number): void {
  for (let start = 0; start < bytes.length; start += width) bytes.subarray(start, start + width).reverse();
}

/** Bring values whose first index runs fastest into C order. */
function fromFortran(raw: Uint8Array, itemsize: number, shape: readonly number[]): Uint8Array {
  const out = new Uint8Array(raw.length);
  const strides: number[] = [];
  shape.reduce((stride, size) => (strides.push(stride), stride * size), itemsize);
  const index = shape.map(() => 0);
  let from = 0;
  for (let to = 0; to < raw.length; to += itemsize) {
    for (let byte = 0; byte < itemsize; byte++) out[to + byte] = raw[from + byte] as number;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      const position = (index[axis] as number) + 1;
      from += strides[axis] as number;
      index[axis] = position;
      if (position < (shape[axis] as number)) break;
      from -= position * (strides[axis] as number);
      index[axis] = 0;
    }
  }
  return out;
}
