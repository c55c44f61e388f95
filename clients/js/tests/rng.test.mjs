import assert from "node:assert/strict";
import { test } from "node:test";

import { philox4x32, Rng } from "../dist/index.js";

test("a block is that of the published Philox 4x32-10", () => {
  const ones = 0xffffffff;
  assert.deepEqual(philox4x32([0, 0, 0, 0], [0, 0]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
  assert.deepEqual(philox4x32([ones, ones, ones, ones], [ones, ones]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
  assert.deepEqual(
    philox4x32([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
    [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
  );
});

test("words come from blocks in order, with seed as key and stream in the counter", () => {
  const rng = new Rng(0x0000000200000001n, 0x0000000400000003n);
  const expected = [0, 1].flatMap((block) => philox4x32([block, 0, 3, 4], [1, 2]));
  assert.deepEqual(Array.from({ length: 8 }, () => rng.nextU32()), expected);
  rng.position = 2 ** 34 * 3 + 5;
  assert.equal(rng.nextU32(), philox4x32([1, 3, 3, 4], [1, 2])[1]);
});

test("a position can be returned to", () => {
  const rng = new Rng(7);
  rng.fillNormal(new Float64Array(5));
  assert.equal(rng.position, 20);
  const next = [rng.uniform(), rng.gumbel(), rng.integers(-5, 5)];
  rng.position = 20;
  assert.deepEqual([rng.uniform(), rng.gumbel(), rng.integers(-5, 5)], next);
});

test("draws follow their distributions", () => {
  const rng = new Rng(1);
  const n = 20_000;
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  assert.ok(Math.abs(mean(rng.fillUniform(new Float64Array(n))) - 0.5) < 0.01);
  const normal = rng.fillNormal(new Float64Array(n));
  assert.ok(Math.abs(mean(normal)) < 0.03);
  assert.ok(Math.abs(mean(normal.map((value) => value * value)) - 1) < 0.05);
  assert.ok(Math.abs(mean(rng.fillGumbel(new Float64Array(n))) - 0.5772) < 0.05);
  const counts = new Array(7).fill(0);
  for (const value of rng.fillIntegers(new Int32Array(n), 10, 17)) counts[value - 10]++;
  for (const count of counts) assert.ok(Math.abs(count - n / 7) < 250, String(counts));
});

test("our logarithm and cosine are those of the engine to the last bits", () => {
  const rng = new Rng(3);
  for (let draw = 0; draw < 2000; draw++) {
    const at = rng.position;
    const normal = rng.normal();
    rng.position = at;
    const expected = Math.sqrt(-2 * Math.log(1 - rng.uniform())) * Math.cos(2 * Math.PI * rng.uniform());
    assert.ok(Math.abs(normal - expected) <= 1e-15 * Math.max(4, Math.abs(expected)), `${normal} ${expected}`);
  }
});

test("a permutation holds every number once", () => {
  const order = new Rng(5).permutation(1000);
  assert.deepEqual([...order].sort((a, b) => a - b), Array.from({ length: 1000 }, (_, index) => index));
  assert.notDeepEqual([...order].slice(0, 5), [0, 1, 2, 3, 4]);
  assert.deepEqual([...new Rng(5).permutation(0)], []);
});

test("the whole range of words can be drawn", () => {
  const rng = new Rng(9);
  const word = rng.nextU32();
  rng.position = 0;
  assert.equal(rng.integers(-(2 ** 31), 2 ** 31), word - 2 ** 31);
});

test("what is no seed, range or position is refused in a sentence", () => {
  assert.throws(() => new Rng(-1), /seed is -1; a whole number from 0 to 2\^64 - 1 was expected/);
  assert.throws(() => new Rng(0, 1n << 64n), /stream is 18446744073709551616/);
  assert.throws(() => new Rng(0.5), /seed is 0.5/);
  const rng = new Rng(0);
  assert.throws(() => rng.integers(3, 3), /low is 3 and high is 3/);
  assert.throws(() => rng.integers(0, 2 ** 33), /high - low <= 2\^32/);
  assert.throws(() => (rng.position = -1), /position is -1/);
  assert.throws(() => rng.permutation(1.5), /n is 1.5/);
});
