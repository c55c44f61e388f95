/** Element types: their names, how `.npy` spells them, and their values as float64. */

/** What went wrong with a file, a tensor or a trace, in one sentence. */
export class FirstdiffError extends Error {
  override readonly name = "FirstdiffError";
}

export type TypedArray =
  | Float64Array
  | Float32Array
  | Int32Array
  | Int16Array
  | Int8Array
  | Uint32Array
  | Uint16Array
  | Uint8Array
  | Uint8ClampedArray
  | BigInt64Array
  | BigUint64Array;

/** Values in C order. float16, bfloat16 and the float8 types are raw bits, complex numbers are pairs, bool is 0 or 1. */
export interface Tensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: TypedArray;
}

/** A tensor of onnxruntime-web, or anything that looks like one. */
export interface OrtTensor {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: unknown;
}

/** What `tap` and `check` take; a typed array alone has one dimension, a number none. */
export type TensorLike = Tensor | OrtTensor | TypedArray | number;

interface DType {
  /** numpy's letter and size, without the byte order */
  readonly code: string;
  readonly itemsize: number;
  /** array elements for each tensor element */
  readonly parts: number;
  readonly array: new (buffer: ArrayBuffer) => TypedArray;
  /** the constructors whose elements may be handed over as this type */
  readonly accepts: readonly string[];
}

function dtype(code: string, array: DType["array"], accepts: string[], parts = 1): DType {
  return { code, itemsize: Number(code.slice(1)), parts, array, accepts };
}

const BYTE_BITS = dtype("u1", Uint8Array, ["Uint8Array"]);
const DTYPES: ReadonlyMap<string, DType> = new Map(
  Object.entries({
    float64: dtype("f8", Float64Array, ["Float64Array"]),
    float32: dtype("f4", Float32Array, ["Float32Array"]),
    float16: dtype("f2", Uint16Array, ["Uint16Array", "Float16Array"]),
    complex128: dtype("c16", Float64Array, ["Float64Array"], 2),
    complex64: dtype("c8", Float32Array, ["Float32Array"], 2),
    bool: dtype("b1", Uint8Array, ["Uint8Array"]),
    int64: dtype("i8", BigInt64Array, ["BigInt64Array"]),
    int32: dtype("i4", Int32Array, ["Int32Array"]),
    int16: dtype("i2", Int16Array, ["Int16Array"]),
    int8: dtype("i1", Int8Array, ["Int8Array"]),
    uint64: dtype("u8", BigUint64Array, ["BigUint64Array"]),
    uint32: dtype("u4", Uint32Array, ["Uint32Array"]),
    uint16: dtype("u2", Uint16Array, ["Uint16Array"]),
    uint8: dtype("u1", Uint8Array, ["Uint8Array", "Uint8ClampedArray"]),
    bfloat16: dtype("u2", Uint16Array, ["Uint16Array"]),
    float8_e4m3fn: BYTE_BITS,
    float8_e5m2: BYTE_BITS,
    float8_e4m3fnuz: BYTE_BITS,
    float8_e5m2fnuz: BYTE_BITS,
    float8_e4m3: BYTE_BITS,
    float8_e3m4: BYTE_BITS,
    float8_e4m3b11fnuz: BYTE_BITS,
    float8_e8m0fnu: BYTE_BITS,
  }),
);
const BY_CODE = new Map([...DTYPES].reverse().flatMap(([name, kind]) => (isBits(name) ? [] : [[kind.code, name]])));
const BY_ARRAY: Readonly<Record<string, string>> = {
  Float64Array: "float64",
  Float32Array: "float32",
  Float16Array: "float16",
  BigInt64Array: "int64",
  BigUint64Array: "uint64",
  Int32Array: "int32",
  Int16Array: "int16",
  Int8Array: "int8",
  Uint32Array: "uint32",
  Uint16Array: "uint16",
  Uint8Array: "uint8",
  Uint8ClampedArray: "uint8",
};

export function dtypeOf(name: string): DType {
  const found = DTYPES.get(name);
  if (!found) throw new FirstdiffError(`${name} is no element type; one of ${[...DTYPES.keys()].join(", ")} was expected`);
  return found;
}

/** Return the name for numpy's code, such as `f4`, or undefined. */
export function nameOfCode(code: string): string | undefined {
  return BY_CODE.get(code);
}

/** True for the types that a `.npy` carries as raw bits, because numpy has no name for them. */
export function isBits(name: string): boolean {
  return name === "bfloat16" || name.startsWith("float8_");
}

/** True where equality is the only right comparison: ids, counts, masks. */
export function isExact(name: string): boolean {
  return name === "bool" || name.startsWith("int") || name.startsWith("uint");
}

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Turn what was handed over into a tensor that shares its memory; FirstdiffError says what does not fit. */
export function toTensor(name: string, value: TensorLike, shape?: readonly number[]): Tensor {
  if (typeof value === "number") return checked(name, "float64", shape ?? [], Float64Array.of(value));
  if (ArrayBuffer.isView(value)) return checked(name, BY_ARRAY[arrayName(value)], shape ?? [value.length], value);
  if (value && typeof value === "object" && "dims" in value) return checked(name, value.type, shape ?? value.dims, value.data);
  if (value && typeof value === "object" && "dtype" in value) return checked(name, value.dtype, shape ?? value.shape, value.data);
  throw new FirstdiffError(`${name} is no tensor; a typed array, {dtype, shape, data} or {type, dims, data} was expected`);
}

function checked(name: string, dtypeName: string | undefined, shape: readonly number[], data: unknown): Tensor {
  const kind = DTYPES.get(dtypeName ?? "");
  if (!dtypeName || !kind) {
    throw new FirstdiffError(`${name} has elements of type ${dtypeName}, which a trace cannot hold; cast it first`);
  }
  if (!ArrayBuffer.isView(data) || !kind.accepts.includes(arrayName(data))) {
    const found = ArrayBuffer.isView(data) ? arrayName(data) : Array.isArray(data) ? "Array" : typeof data;
    throw new FirstdiffError(`${name} is ${dtypeName}, but its data is a ${found}; a ${kind.accepts[0]} was expected`);
  }
  if (!Array.isArray(shape) || shape.some((size) => !Number.isSafeInteger(size) || size < 0)) {
    throw new FirstdiffError(`${name} has the shape [${shape}]; whole numbers from 0 on were expected`);
  }
  const values = data as TypedArray;
  if (elementsOf(shape) * kind.parts !== values.length) {
    throw new FirstdiffError(
      `${name} has ${values.length / kind.parts} elements, but its shape [${shape.join(", ")}] has ${elementsOf(shape)}`,
    );
  }
  const { buffer, byteOffset, length } = values;
  const bits = arrayName(values) === "Float16Array" ? new Uint16Array(buffer, byteOffset, length) : values;
  return { dtype: dtypeName, shape: [...shape], data: bits };
}

function arrayName(view: ArrayBufferView): string {
  return Object.prototype.toString.call(view).slice(8, -1);
}

/** Return a function that gives element i as a float64; both parts of complex numbers count as elements. */
export function valueReader(tensor: Tensor): (index: number) => number {
  const { data } = tensor;
  if (tensor.dtype === "float16") return (index) => fromBits(data[index] as number, HALF);
  if (tensor.dtype === "bfloat16") return (index) => fromBits(data[index] as number, BFLOAT);
  if (tensor.dtype.startsWith("float8_")) {
    const table = float8Values(tensor.dtype);
    return (index) => table[data[index] as number] as number;
  }
  return (index) => Number(data[index]);
}

interface FloatBits {
  readonly mantissa: number;
  readonly exponent: number;
  readonly bias: number;
  /** ieee: the top exponent is Inf and NaN; fn: NaN is all ones; fnuz: NaN is negative zero; none: an exponent alone */
  readonly special: "ieee" | "fn" | "fnuz" | "exponent";
}

const HALF: FloatBits = { mantissa: 10, exponent: 5, bias: 15, special: "ieee" };
const BFLOAT: FloatBits = { mantissa: 7, exponent: 8, bias: 127, special: "ieee" };
const FLOAT8: Readonly<Record<string, FloatBits>> = {
  float8_e4m3fn: { mantissa: 3, exponent: 4, bias: 7, special: "fn" },
  float8_e5m2: { mantissa: 2, exponent: 5, bias: 15, special: "ieee" },
  float8_e4m3fnuz: { mantissa: 3, exponent: 4, bias: 8, special: "fnuz" },
  float8_e5m2fnuz: { mantissa: 2, exponent: 5, bias: 16, special: "fnuz" },
  float8_e4m3: { mantissa: 3, exponent: 4, bias: 7, special: "ieee" },
  float8_e3m4: { mantissa: 4, exponent: 3, bias: 3, special: "ieee" },
  float8_e4m3b11fnuz: { mantissa: 3, exponent: 4, bias: 11, special: "fnuz" },
  float8_e8m0fnu: { mantissa: 0, exponent: 8, bias: 127, special: "exponent" },
};
const tables = new Map<string, Float64Array>();

function float8Values(name: string): Float64Array {
  let table = tables.get(name);
  if (!table) {
    const layout = FLOAT8[name] as FloatBits;
    table = Float64Array.from({ length: 256 }, (_, bits) => fromBits(bits, layout));
    tables.set(name, table);
  }
  return table;
}

function fromBits(bits: number, layout: FloatBits): number {
  const { mantissa, bias, special } = layout;
  const top = 2 ** layout.exponent - 1;
  if (special === "exponent") return bits === top ? NaN : 2 ** (bits - bias);
  const signBit = 2 ** (mantissa + layout.exponent);
  const sign = bits & signBit ? -1 : 1;
  const exponent = (bits >> mantissa) & top;
  const fraction = bits & (2 ** mantissa - 1);
  if (special === "ieee" && exponent === top) return fraction ? NaN : sign * Infinity;
  if (special === "fn" && (bits & (signBit - 1)) === signBit - 1) return NaN;
  if (special === "fnuz" && bits === signBit) return NaN;
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias - mantissa);
  return sign * (1 + fraction / 2 ** mantissa) * 2 ** (exponent - bias);
}
