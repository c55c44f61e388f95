/** SHA-256 in plain arithmetic, for addresses where the browser offers no `crypto.subtle` (http beyond this machine). */
const ROUNDS = 64;

function firstPrimes(many: number): number[] {
  const primes: number[] = [];
  for (let n = 2; primes.length < many; n++) if (primes.every((prime) => n % prime)) primes.push(n);
  return primes;
}

const fraction = (value: number): number => ((value - Math.floor(value)) * 2 ** 32) | 0;
const CONSTANTS = Int32Array.from(firstPrimes(ROUNDS), (prime) => fraction(Math.cbrt(prime)));
const START = Int32Array.from(firstPrimes(8), (prime) => fraction(Math.sqrt(prime)));

const turn = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

export function sha256(data: Uint8Array): Uint8Array {
  const padded = new Uint8Array(((data.length + 8) >> 6 << 6) + 64);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(data.length / 2 ** 29));
  view.setUint32(padded.length - 4, (data.length << 3) >>> 0);
  const state = START.slice();
  const words = new Int32Array(ROUNDS);
  for (let at = 0; at < padded.length; at += 64) mixBlock(state, words, view, at);
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((word, index) => out.setInt32(index * 4, word));
  return new Uint8Array(out.buffer);
}

function mixBlock(state: Int32Array, words: Int32Array, view: DataView, at: number): void {
  for (let i = 0; i < 16; i++) words[i] = view.getInt32(at + i * 4);
  for (let i = 16; i < ROUNDS; i++) {
    const near = words[i - 2]!;
    const far = words[i - 15]!;
    const mixedNear = turn(near, 17) ^ turn(near, 19) ^ (near >>> 10);
    const mixedFar = turn(far, 7) ^ turn(far, 18) ^ (far >>> 3);
    words[i] = (words[i - 16]! + mixedFar + words[i - 7]! + mixedNear) | 0;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
  for (let i = 0; i < ROUNDS; i++) {
    const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + CONSTANTS[i]! + words[i]!) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => (state[index] = (state[index]! + word) | 0));
}

/** The sha256 of a piece of a file, as hex: by the browser where it can, by our own arithmetic where it may not. */
export async function digest(piece: Blob): Promise<string> {
  const data = await piece.arrayBuffer();
  const hash = isSecureContext ? new Uint8Array(await crypto.subtle.digest("SHA-256", data)) : sha256(new Uint8Array(data));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
