/** Elements as they travel: raw little-endian bytes of a known type, read one at a time, never rounded on the way. */
export type Exact = number | bigint | boolean | readonly [number, number];

interface Reader {
  bytes: number;
  read: (view: DataView, at: number) => Exact;
}

const BFLOAT16 = new DataView(new ArrayBuffer(4));

function bfloat16(view: DataView, at: number): number {
  BFLOAT16.setUint16(2, view.getUint16(at, true), true);
  return BFLOAT16.getFloat32(0, true);
}

interface Mini {
  exponent: number;
  mantissa: number;
  bias: number;
  /** What the topmost exponent means: infinities and NaN, NaN for the topmost code alone, or nothing special. */
  top: "ieee" | "nan" | "none";
  /** Types of the kind `fnuz`: the code of minus zero is NaN. */
  minusZeroIsNan?: boolean;
}

function mini({ exponent, mantissa, bias, top, minusZeroIsNan = false }: Mini, bits: number): number {
  const sign = (bits >> (exponent + mantissa)) & 1 ? -1 : 1;
  const e = (bits >> mantissa) & ((1 << exponent) - 1);
  const m = bits & ((1 << mantissa) - 1);
  const last = (1 << exponent) - 1;
  if (minusZeroIsNan && sign < 0 && e === 0 && m === 0) return NaN;
  if (top === "ieee" && e === last) return m === 0 ? sign * Infinity : NaN;
  if (top === "nan" && e === last && m === (1 << mantissa) - 1) return NaN;
  if (e === 0) return sign * m * 2 ** (1 - bias - mantissa);
  return sign * (1 + m * 2 ** -mantissa) * 2 ** (e - bias);
}

function small(layout: Mini): Reader {
  return { bytes: 1, read: (view, at) => mini(layout, view.getUint8(at)) };
}

const HALF: Mini = { exponent: 5, mantissa: 10, bias: 15, top: "ieee" };

const READERS: Record<string, Reader> = {
  float64: { bytes: 8, read: (view, at) => view.getFloat64(at, true) },
  float32: { bytes: 4, read: (view, at) => view.getFloat32(at, true) },
  float16: { bytes: 2, read: (view, at) => mini(HALF, view.getUint16(at, true)) },
  bfloat16: { bytes: 2, read: bfloat16 },
  float8_e4m3fn: small({ exponent: 4, mantissa: 3, bias: 7, top: "nan" }),
  float8_e4m3: small({ exponent: 4, mantissa: 3, bias: 7, top: "ieee" }),
  float8_e5m2: small({ exponent: 5, mantissa: 2, bias: 15, top: "ieee" }),
  float8_e3m4: small({ exponent: 3, mantissa: 4, bias: 3, top: "ieee" }),
  float8_e4m3fnuz: small({ exponent: 4, mantissa: 3, bias: 8, top: "none", minusZeroIsNan: true }),
  float8_e4m3b11fnuz: small({ exponent: 4, mantissa: 3, bias: 11, top: "none", minusZeroIsNan: true }),
  float8_e5m2fnuz: small({ exponent: 5, mantissa: 2, bias: 16, top: "none", minusZeroIsNan: true }),
  float8_e8m0fnu: { bytes: 1, read: (view, at) => (view.getUint8(at) === 255 ? NaN : 2 ** (view.getUint8(at) - 127)) },
  int8: { bytes: 1, read: (view, at) => view.getInt8(at) },
  uint8: { bytes: 1, read: (view, at) => view.getUint8(at) },
  int16: { bytes: 2, read: (view, at) => view.getInt16(at, true) },
  uint16: { bytes: 2, read: (view, at) => view.getUint16(at, true) },
  int32: { bytes: 4, read: (view, at) => view.getInt32(at, true) },
  uint32: { bytes: 4, read: (view, at) => view.getUint32(at, true) },
  int64: { bytes: 8, read: (view, at) => view.getBigInt64(at, true) },
  uint64: { bytes: 8, read: (view, at) => view.getBigUint64(at, true) },
  bool: { bytes: 1, read: (view, at) => view.getUint8(at) !== 0 },
  complex64: { bytes: 8, read: (view, at) => [view.getFloat32(at, true), view.getFloat32(at + 4, true)] },
  complex128: { bytes: 16, read: (view, at) => [view.getFloat64(at, true), view.getFloat64(at + 8, true)] },
};

/** A part of a tensor: its shape, its type, and its elements in C order. */
export class Values {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly size: number;
  readonly #view: DataView;
  readonly #reader: Reader;

  constructor(bytes: ArrayBuffer, shape: readonly number[], dtype: string) {
    const reader = READERS[dtype];
    if (!reader) throw new Error(`Values of type ${dtype} cannot be shown; export the slice to look at it elsewhere.`);
    this.shape = shape;
    this.dtype = dtype;
    this.size = shape.reduce((product, length) => product * length, 1);
    if (bytes.byteLength !== this.size * reader.bytes)
      throw new Error(`The server sent ${bytes.byteLength} bytes for ${this.size} elements of ${dtype}.`);
    this.#view = new DataView(bytes);
    this.#reader = reader;
  }

  exact(place: number): Exact {
    return this.#reader.read(this.#view, place * this.#reader.bytes);
  }

  /** As one number to colour by: a complex value by its magnitude. */
  number(place: number): number {
    return magnitudeOrValue(this.exact(place));
  }

  text(place: number): string {
    return exactText(this.exact(place), this.dtype);
  }

  /** All of them as numbers to paint. */
  numbers(): Float64Array {
    const found = new Float64Array(this.size);
    for (let place = 0; place < this.size; place++) found[place] = this.number(place);
    return found;
  }
}

export function magnitudeOrValue(value: Exact): number {
  return Array.isArray(value) ? Math.hypot(value[0] as number, value[1] as number) : Number(value);
}

/** The shortest decimal that gives the value back; narrower types are short as they are. */
export function exactText(value: Exact, dtype: string): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number") return dtype === "float32" ? shortest32(value) : plain(value);
  const [real, imaginary] = value as readonly [number, number];
  const part = dtype === "complex64" ? shortest32 : plain;
  const sign = imaginary < 0 || Object.is(imaginary, -0) ? "" : "+";
  return `${part(real)}${sign}${part(imaginary)}j`;
}

function plain(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return Object.is(value, -0) ? "-0" : String(value);
}

function shortest32(value: number): string {
  if (!Number.isFinite(value) || value === 0) return plain(value);
  for (let digits = 6; digits <= 9; digits++) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.fround(rounded) === value) return plain(rounded);
  }
  return plain(value);
}
