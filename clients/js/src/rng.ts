/**
 * A counter-based random generator, Philox 4x32-10, with the same bits in Python, Rust, JavaScript and C++.
 *
 * A draw depends on the seed, the stream and the position alone, so a port draws what the reference drew.
 * Logarithm and cosine are written out in float64 additions, multiplications and divisions, because those of the
 * engines differ in the last bit.
 */

type Words = [number, number, number, number];

const TWO_26 = 2 ** 26;
const TWO_32 = 2 ** 32;
const TWO_53 = 2 ** 53;
const WORDS_IN_BLOCK = 4;
const ROUNDS = 10;

/** Return the four 32-bit words of one block. */
export function philox4x32(counter: Readonly<Words>, key: readonly [number, number]): Words {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < ROUNDS; round++) {
    const high0 = multiplyHigh(0xd2511f53, c0);
    const low0 = Math.imul(0xd2511f53, c0);
    const high1 = multiplyHigh(0xcd9e8d57, c2);
    const low1 = Math.imul(0xcd9e8d57, c2);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 = (k0 + 0x9e3779b9) | 0;
    k1 = (k1 + 0xbb67ae85) | 0;
  }
  return [c0 >>> 0, c1 >>> 0, c2 >>> 0, c3 >>> 0];
}

/**
 * Draws random numbers.
 *
 * ```js
 * const rng = new Rng(42);
 * rng.uniform();                              // in [0, 1)
 * rng.fillNormal(new Float32Array(1024));
 * ```
 *
 * seed, stream: whole numbers from 0 to 2^64 - 1; streams of one seed are independent
 */
export class Rng {
  readonly seed: bigint;
  readonly stream: bigint;
  private readonly key: readonly [number, number];
  private readonly streamWords: readonly [number, number];
  private taken = 0;
  private blockNumber = -1;
  private block: Words = [0, 0, 0, 0];

  constructor(seed: number | bigint, stream: number | bigint = 0) {
    this.seed = unsigned64("seed", seed);
    this.stream = unsigned64("stream", stream);
    this.key = halves(this.seed);
    this.streamWords = halves(this.stream);
  }

  /** How many 32-bit words were taken; set it to go on from there. */
  get position(): number {
    return this.taken;
  }

  set position(words: number) {
    if (!Number.isSafeInteger(words) || words < 0) {
      throw new RangeError(`position is ${words}; a whole number from 0 to 2^53 - 1 was expected`);
    }
    this.taken = words;
  }

  nextU32(): number {
    const number = Math.floor(this.taken / WORDS_IN_BLOCK);
    if (number !== this.blockNumber) {
      const counter: Words = [number >>> 0, Math.floor(number / TWO_32), ...this.streamWords];
      this.block = philox4x32(counter, this.key);
      this.blockNumber = number;
    }
    return this.block[this.taken++ % WORDS_IN_BLOCK] as number;
  }

  /** Draw a float64 from [0, 1), of two words. */
  uniform(): number {
    const high = this.nextU32() >>> 5;
    const low = this.nextU32() >>> 6;
    return (high * TWO_26 + low) / TWO_53;
  }

  /** Draw a value from [0, 1) that float32 holds exactly, of one word. */
  uniformF32(): number {
    return (this.nextU32() >>> 8) / 2 ** 24;
  }

  /** Draw from the standard normal distribution, of four words. */
  normal(): number {
    const radius = 1 - this.uniform();
    const turn = this.uniform();
    return Math.sqrt(-2 * log(radius)) * cosTurn(turn);
  }

  /** Draw from the standard Gumbel distribution, of two words. */
  gumbel(): number {
    const inside = Math.min(this.uniform() + 2 ** -54, 1 - 2 ** -53);
    return -log(-log(inside));
  }

  /** Draw a whole number from low up to, but not including, high; none is more likely than another. */
  integers(low: number, high: number): number {
    const range = high - low;
    if (!Number.isSafeInteger(low) || !Number.isSafeInteger(high) || range < 1 || range > TWO_32) {
      throw new RangeError(`low is ${low} and high is ${high}; whole numbers with 1 <= high - low <= 2^32 were expected`);
    }
    if (range === TWO_32) return low + this.nextU32();
    const rejected = (TWO_32 - range) % range;
    for (;;) {
      const word = this.nextU32();
      if (Math.imul(word, range) >>> 0 >= rejected) return low + multiplyHigh(word, range);
    }
  }

  /** Draw an order of 0 … n - 1. */
  permutation(n: number): Uint32Array {
    if (!Number.isSafeInteger(n) || n < 0 || n > TWO_32) {
      throw new RangeError(`n is ${n}; a whole number from 0 to 2^32 was expected`);
    }
    const order = Uint32Array.from({ length: n }, (_, index) => index);
    for (let last = n - 1; last > 0; last--) {
      const other = this.integers(0, last + 1);
      const moved = order[last] as number;
      order[last] = order[other] as number;
      order[other] = moved;
    }
    return order;
  }

  /** Fill an array in C order with what `uniform` draws. */
  fillUniform<T extends Float32Array | Float64Array>(out: T): T {
    for (let index = 0; index < out.length; index++) out[index] = this.uniform();
    return out;
  }

  fillUniformF32<T extends Float32Array | Float64Array>(out: T): T {
    for (let index = 0; index < out.length; index++) out[index] = this.uniformF32();
    return out;
  }

  fillNormal<T extends Float32Array | Float64Array>(out: T): T {
    for (let index = 0; index < out.length; index++) out[index] = this.normal();
    return out;
  }

  fillGumbel<T extends Float32Array | Float64Array>(out: T): T {
    for (let index = 0; index < out.length; index++) out[index] = this.gumbel();
    return out;
  }

  fillIntegers<T extends Int32Array | Uint32Array | Float64Array>(out: T, low: number, high: number): T {
    for (let index = 0; index < out.length; index++) out[index] = this.integers(low, high);
    return out;
  }
}

function multiplyHigh(a: number, b: number): number {
  const aHigh = a >>> 16;
  const aLow = a & 0xffff;
  const bHigh = b >>> 16;
  const bLow = b & 0xffff;
  // every sum stays below 2^32, so nothing is lost
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const other = aLow * bHigh + (middle & 0xffff);
  return (aHigh * bHigh + (middle >>> 16) + (other >>> 16)) >>> 0;
}

function unsigned64(what: string, value: number | bigint): bigint {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new RangeError(`${what} is ${value}; a whole number was expected, as a bigint from 2^53 on`);
  }
  const whole = BigInt(value);
  if (whole < 0n || whole >= 1n << 64n) {
    throw new RangeError(`${what} is ${whole}; a whole number from 0 to 2^64 - 1 was expected`);
  }
  return whole;
}

function halves(value: bigint): readonly [number, number] {
  return [Number(value & 0xffffffffn), Number(value >> 32n)];
}

const LN2_HIGH = 6.9314718036912381649e-1;
const LN2_LOW = 1.90821492927058770002e-10;
const bits = new DataView(new ArrayBuffer(8));

/** The logarithm of a positive number, as fdlibm's e_log.c computes it, with one branch for all arguments. */
function log(x: number): number {
  let exponent = 0;
  if (x < 2 ** -1022) {
    x *= 2 ** 54;
    exponent = -54;
  }
  bits.setFloat64(0, x);
  const high = bits.getUint32(0);
  exponent += (high >>> 20) - 1023;
  bits.setUint32(0, (high & 0xfffff) | 0x3ff00000);
  let mantissa = bits.getFloat64(0);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    exponent += 1;
  }
  const f = mantissa - 1;
  if (f === 0) return exponent * LN2_HIGH + exponent * LN2_LOW;
  const s = f / (2 + f);
  const z = s * s;
  const w = z * z;
  const even = w * (3.999999999940941908e-1 + w * (2.222219843214978396e-1 + w * 1.531383769920937332e-1));
  const odd =
    z *
    (6.66666666666673513e-1 +
      w * (2.857142874366239149e-1 + w * (1.818357216161805012e-1 + w * 1.479819860511658591e-1)));
  const rest = odd + even;
  const half = 0.5 * f * f;
  return exponent * LN2_HIGH - (half - (s * (half + rest) + exponent * LN2_LOW) - f);
}

/** cos(2 pi u) for u in [0, 1), by fdlibm's polynomials on the nearest quarter turn. */
function cosTurn(u: number): number {
  const quarter = Math.floor(4 * u + 0.5);
  const x = (u - quarter * 0.25) * 6.283185307179586;
  const z = x * x;
  if (quarter % 2 === 0) {
    const tail =
      4.16666666666666019037e-2 +
      z *
        (-1.38888888888741095749e-3 +
          z *
            (2.48015872894767294178e-5 +
              z * (-2.75573143513906633035e-7 + z * (2.0875723212981748279e-9 + z * -1.13596475577881948265e-11))));
    const cosine = 1 - (0.5 * z - z * z * tail);
    return quarter === 2 ? -cosine : cosine;
  }
  const tail =
    -1.66666666666666324348e-1 +
    z *
      (8.33333333332248946124e-3 +
        z *
          (-1.98412698298579493134e-4 +
            z * (2.75573137070700676789e-6 + z * (-2.50507602534068634195e-8 + z * 1.58969099521155010221e-10))));
  const sine = x + x * (z * tail);
  return quarter === 1 ? -sine : sine;
}
