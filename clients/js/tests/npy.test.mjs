import assert from "node:assert/strict";
import { test } from "node:test";

import { readNpy, writeNpy } from "../dist/index.js";

function npy(descr, shape, data, { fortran = "False", version = 1 } = {}) {
  const text = `{'descr': ${descr}, 'fortran_order': ${fortran}, 'shape': ${shape}, }\n`;
  const length = version === 1 ? [text.length & 255, text.length >> 8] : [text.length & 255, text.length >> 8, 0, 0];
  return Uint8Array.from([0x93, ...Buffer.from("NUMPY"), version, 0, ...length, ...Buffer.from(text, "latin1"), ...data]);
}

const EVERY_TYPE = {
  float64: Float64Array.of(1.5, -0, NaN, Infinity),
  float32: Float32Array.of(1.5, -0, NaN, -Infinity),
  float16: Uint16Array.of(0x3c00, 0x7c00, 0x7e01, 1),
  bool: Uint8Array.of(0, 1, 1, 0),
  int64: BigInt64Array.of(-(2n ** 63n), -1n, 0n, 2n ** 63n - 1n),
  int32: Int32Array.of(-1, 0, 1, 2 ** 31 - 1),
  int16: Int16Array.of(-1, 0, 1, 32767),
  int8: Int8Array.of(-128, 0, 1, 127),
  uint64: BigUint64Array.of(0n, 1n, 2n, 2n ** 64n - 1n),
  uint32: Uint32Array.of(0, 1, 2, 2 ** 32 - 1),
  uint16: Uint16Array.of(0, 1, 2, 65535),
  uint8: Uint8Array.of(0, 1, 2, 255),
};

test("every type comes back as it was, bit for bit", () => {
  for (const [dtype, data] of Object.entries(EVERY_TYPE)) {
    const back = readNpy(writeNpy({ dtype, shape: [2, 2], data }));
    assert.equal(back.dtype, dtype);
    assert.deepEqual(back.shape, [2, 2]);
    assert.deepEqual(Buffer.from(back.data.buffer), Buffer.from(data.buffer), dtype);
  }
});

test("complex numbers are pairs, bits keep their true type by name", () => {
  const complex = { dtype: "complex64", shape: [2], data: Float32Array.of(1, 2, 3, 4) };
  assert.deepEqual(readNpy(writeNpy(complex)), complex);
  const bits = { dtype: "bfloat16", shape: [2], data: Uint16Array.of(0x3f80, 0x7fc1) };
  assert.equal(readNpy(writeNpy(bits)).dtype, "uint16");
  assert.deepEqual(readNpy(writeNpy(bits), "h", "bfloat16"), bits);
});

test("shapes of no dimension and of no element are kept", () => {
  assert.deepEqual(readNpy(writeNpy({ dtype: "float32", shape: [], data: Float32Array.of(7) })).shape, []);
  assert.deepEqual(readNpy(writeNpy({ dtype: "int8", shape: [2, 0, 3], data: new Int8Array() })).shape, [2, 0, 3]);
});

test("Fortran order, other byte orders and newer versions are read", () => {
  const fortran = npy("'|i1'", "(2, 3)", [1, 4, 2, 5, 3, 6], { fortran: "True" });
  assert.deepEqual([...readNpy(fortran).data], [1, 2, 3, 4, 5, 6]);
  assert.deepEqual([...readNpy(npy("'>i2'", "(2,)", [0, 1, 1, 0])).data], [1, 256]);
  assert.deepEqual([...readNpy(npy("'>c8'", "(1,)", [0x3f, 0x80, 0, 0, 0x40, 0, 0, 0])).data], [1, 2]);
  assert.deepEqual([...readNpy(npy("'<u2'", "(1,)", [3, 0], { version: 2 })).data], [3]);
  assert.deepEqual([...readNpy(npy("'<u2'", "(1,)", [3, 0], { version: 3 })).data], [3]);
});

test("a part of a larger buffer can be read and written", () => {
  const inner = writeNpy({ dtype: "float64", shape: [1], data: new Float64Array([0, 5, 0]).subarray(1, 2) });
  const outer = new Uint8Array(inner.length + 3);
  outer.set(inner, 3);
  assert.deepEqual([...readNpy(outer.subarray(3)).data], [5]);
  const buffer = Buffer.from(outer.subarray(3));
  const { data } = readNpy(buffer);
  buffer.fill(255);
  assert.deepEqual([...data], [5]);
});

test("what is wrong with a file is said with its name", () => {
  const good = writeNpy({ dtype: "float32", shape: [4], data: new Float32Array(4) });
  assert.throws(() => readNpy(good.subarray(0, -1), "mel.npy"), /^FirstdiffError: mel.npy: the file is cut off: \[4\] of float32 takes 16 bytes, and 15 are there$/);
  for (const cut of [0, 5, 9, 10, 60, 127]) assert.throws(() => readNpy(good.subarray(0, cut), "mel.npy"), /mel.npy: .*cut off/);
  assert.throws(() => readNpy(npy("'|O'", "(1,)", []), "x"), /elements of type O are not supported/);
  assert.throws(() => readNpy(npy("[('a', '<f4')]", "(1,)", []), "x"), /array of records/);
  assert.throws(() => readNpy(npy("'<f4'", "(-1,)", []), "x"), /header of the .npy cannot be read/);
  assert.throws(() => readNpy(npy("'<f4'", "(1,)", [], { version: 9 }), "x"), /version 9/);
  assert.throws(() => readNpy(good, "x", "bfloat16"), /the values are float32, which cannot hold bfloat16/);
});

test("values that do not fit their shape or type are refused", () => {
  assert.throws(() => writeNpy({ dtype: "float32", shape: [3], data: new Float32Array(4) }), /has 4 elements, but its shape \[3\] has 3/);
  assert.throws(() => writeNpy({ dtype: "float32", shape: [4], data: new Float64Array(4) }), /data is a Float64Array; a Float32Array was expected/);
  assert.throws(() => writeNpy({ dtype: "string", shape: [1], data: ["a"] }), /type string, which a trace cannot hold/);
  assert.throws(() => writeNpy({ dtype: "int8", shape: [-1], data: new Int8Array(1) }), /whole numbers from 0 on/);
});
