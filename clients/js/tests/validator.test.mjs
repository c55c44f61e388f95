import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { FolderRecorder, openGolden, openGoldenPath, openInput, Validator, writeNpy, writeNpz, ZipRecorder } from "../dist/node.js";

const golden = (tensors) => openGolden(writeNpz(tensors), "golden.npz");
const f32 = (...values) => Float32Array.of(...values);

test("a tensor within the tolerance passes, and its line says the tolerance", async () => {
  const validator = new Validator(await golden({ mel: f32(1, 2, 4) }));
  const result = validator.check("mel", f32(1, 2.001, 4));
  assert.equal(result.status, "pass");
  assert.equal(result.text, "pass   mel [3] max 0.001 mean 0.000333, 0 of 3 beyond (atol 0.0001, rtol 0.001)");
  assert.equal(validator.allPassed, true);
  assert.equal(validator.summary().text, "1 of 1 passed (atol 0.0001, rtol 0.001)");
});

test("the tolerance is atol + rtol * |golden|, not of the candidate", async () => {
  const validator = new Validator(await golden({ x: Float64Array.of(100, 0) }), { atol: 0.5, rtol: 0.01 });
  assert.equal(validator.check("x", Float64Array.of(101.5, 0.5)).status, "pass");
  assert.equal(validator.check("x", Float64Array.of(101.6, 0.5)).beyond, 1);
});

test("other values are told from another shape", async () => {
  const validator = new Validator(await golden({ x: { dtype: "float32", shape: [2, 2], data: f32(1, 2, 3, 4) } }), { verbose: true });
  const value = validator.check("x", f32(1, 2, 9, 4), [2, 2]);
  assert.equal(value.status, "value");
  assert.deepEqual([value.beyond, value.maxDifference, value.meanDifference], [1, 6, 1.5]);
  assert.match(value.text, /^VALUE  x \[2, 2\] max 6 mean 1.5, 1 of 4 beyond \(atol 0.0001, rtol 0.001\)\n +\[1, 0\] 9, golden 3$/);
  const shape = validator.check("x", f32(1, 2, 3, 4));
  assert.equal(shape.status, "shape");
  assert.equal(shape.text, "SHAPE  x is [4], golden is [2, 2] (atol 0.0001, rtol 0.001)");
  assert.equal(validator.check("x", f32(1, 2, 3, 4), [2, 2, 1]).status, "shape");
  assert.equal(validator.summary().text, "0 of 3 passed, 2 of another shape, 1 of other values (atol 0.0001, rtol 0.001)");
});

test("NaN and Inf never pass, not even where the golden has them", async () => {
  const validator = new Validator(await golden({ x: f32(NaN, Infinity, 1, 1), y: f32(1, 1) }), { atol: 1e9 });
  const same = validator.check("x", f32(NaN, Infinity, 1, 1));
  assert.deepEqual([same.status, same.nan, same.inf, same.beyond, same.maxDifference], ["value", 1, 1, 0, 0]);
  assert.match(same.text, /0 of 4 beyond, 1 NaN, 1 Inf/);
  assert.equal(validator.check("y", f32(NaN, 1)).status, "value");
  assert.equal(validator.check("y", f32(1, -Infinity)).status, "value");
  assert.equal(validator.allPassed, false);
});

test("nothing validated is not a pass", async () => {
  const validator = new Validator(await golden({ x: f32(1) }));
  assert.equal(validator.allPassed, false);
  assert.match(validator.summary().text, /^nothing was validated, which is not a pass/);
  await assert.rejects(validator.findDivergence([]), /no checkpoints/);
});

test("whole numbers must be equal, however large the tolerance", async () => {
  const validator = new Validator(await golden({ ids: BigInt64Array.of(50256n, 2n ** 62n), small: Int32Array.of(5), mask: { dtype: "bool", shape: [1], data: Uint8Array.of(1) } }), { rtol: 1 });
  const result = validator.check("ids", BigInt64Array.of(50257n, 2n ** 62n + 1n));
  assert.deepEqual([result.status, result.beyond, result.maxDifference], ["value", 2, 1]);
  assert.match(result.text, /\(exact\)$/);
  assert.equal(validator.check("small", Int32Array.of(5)).status, "pass");
  assert.equal(validator.check("small", BigInt64Array.of(5n)).status, "pass");
  assert.equal(validator.check("mask", { type: "bool", dims: [1], data: Uint8Array.of(0) }).status, "value");
});

test("types may differ where values can be compared", async () => {
  const halves = { dtype: "float16", shape: [4], data: Uint16Array.of(0x3c00, 0x0001, 0xc000, 0x7bff) };
  const validator = new Validator(await golden({ halves }));
  assert.equal(validator.check("halves", f32(1, 2 ** -24, -2, 65504)).status, "pass");
  const rec = new ZipRecorder();
  rec.tap("bf16", { dtype: "bfloat16", shape: [2], data: Uint16Array.of(0x3f80, 0xff80) });
  rec.tap("fp8", { dtype: "float8_e4m3fn", shape: [3], data: Uint8Array.of(0x38, 0x7e, 0x01) });
  const trace = new Validator(await openGolden(rec.blob()));
  assert.equal(trace.check("bf16", f32(1, 2)).inf, 1);
  assert.equal(trace.check("fp8", f32(1, 448, 2 ** -9)).status, "pass");
});

test("what cannot be compared is a result, not a crash", async () => {
  const validator = new Validator(await golden({ "decoder.mel": f32(1) }));
  assert.match(validator.check("mle", f32(1)).text, /^ERROR  mle: golden.npz has no tensor mle; it has 1 \(atol/);
  assert.match(validator.check("encoder.mel", f32(1)).text, /did you mean decoder.mel\?/);
  assert.match(validator.check("decoder.mel", f32(1, 2), [3]).text, /ERROR  decoder.mel: decoder.mel has 2 elements, but its shape \[3\] has 3/);
  assert.equal(validator.check("decoder.mel", undefined).status, "error");
  assert.equal(validator.check("../../etc/passwd", f32(1)).status, "error");
  assert.throws(() => validator.loadGolden("mle"), /has no tensor mle/);
  assert.throws(() => new Validator(validator.golden, { atol: NaN }), /atol is NaN/);
});

test("a folder is searched by path, dotted path, and a stem that only one file has", async () => {
  const folder = mkdtempSync(join(tmpdir(), "golden-"));
  mkdirSync(join(folder, "enc", "0"), { recursive: true });
  mkdirSync(join(folder, "dec"));
  const write = (path, value) => writeFileSync(join(folder, path), writeNpy({ dtype: "float32", shape: [1], data: f32(value) }));
  write("enc/0/mel.npy", 1);
  write("enc/x.npy", 2);
  write("dec/x.npy", 3);
  write("a%2Fb.npy", 4);
  writeFileSync(join(folder, "cut.npy"), readFileSync(join(folder, "enc/x.npy")).subarray(0, 130));
  const validator = new Validator(await openGoldenPath(folder));
  for (const name of ["enc/0/mel", "enc.0.mel", "mel"]) assert.equal(validator.check(name, f32(1)).status, "pass", name);
  assert.equal(validator.check("a/b", f32(4)).status, "pass");
  assert.match(validator.check("x", f32(2)).text, /several tensors called x/);
  assert.match(validator.check("cut", f32(2)).text, /cut.npy: the file is cut off/);
  await assert.rejects(openGoldenPath(join(folder, "nothing")), /nothing cannot be read \(ENOENT/);
});

test("a trace is read by key, also when its writer died", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "golden-")), "t");
  const rec = new FolderRecorder(path);
  rec.tap("h", f32(1));
  rec.tap("h", f32(2));
  rec.tap("h", f32(3), { role: "input", slot: 1, step: 2 });
  rec.tap("last", f32(4));
  const lines = readFileSync(join(path, "tensors.jsonl"));
  truncateSync(join(path, "tensors.jsonl"), lines.length - 5);
  const trace = await openGoldenPath(path);
  assert.equal(trace.complete, false);
  assert.equal(trace.warnings.length, 2);
  const validator = new Validator(trace);
  assert.deepEqual(["h", "h@1", "h:in.1#s2"].map((key) => validator.loadGolden(key).data[0]), [1, 2, 3]);
  assert.equal(validator.check("last", f32(4)).status, "error");
});

test("a trace that points outside of itself is not followed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "golden-"));
  writeFileSync(join(folder, "tensors.jsonl"), '{"name": "x", "file": "../secret.npy"}\n{"name": "y", "file": "gone.npy"}\nrubbish\n');
  const validator = new Validator(await openGoldenPath(folder));
  assert.match(validator.check("x", f32(1)).text, /"..\/secret.npy" of x is not in the trace/);
  assert.match(validator.check("y", f32(1)).text, /is not in the trace/);
});

test("the first divergence is found among checks, and by bisection when computed on demand", async () => {
  const names = Array.from({ length: 100 }, (_, number) => `layer.${number}`);
  const data = Object.fromEntries(names.map((name, number) => [name, f32(number)]));
  for (const first of [0, 1, 37, 99, 100]) {
    const validator = new Validator(await golden(data));
    let computed = 0;
    const found = await validator.findDivergence(names, async (name) => {
      computed++;
      const number = Number(name.slice(6));
      return f32(number >= first ? number + 1 : number);
    });
    assert.equal(found?.name, names[first]);
    assert.equal(found?.after, first && first < 100 ? names[first - 1] : undefined);
    assert.ok(computed <= 8, `${computed} were computed`);
  }
  const validator = new Validator(await golden(data));
  for (const name of names) validator.check(name, f32(name === "layer.3" ? -1 : Number(name.slice(6))));
  assert.deepEqual((({ name, after }) => [name, after])(await validator.findDivergence(names)), ["layer.3", "layer.2"]);
  await assert.rejects(validator.findDivergence(["other"]), /other was not checked yet/);
});

test("a checkpoint that cannot be computed ends the search as an error", async () => {
  const validator = new Validator(await golden({ a: f32(1), b: f32(2) }));
  const found = await validator.findDivergence(["a", "b"], () => {
    throw new Error("out of memory");
  });
  assert.equal(found.result.status, "error");
  assert.match(found.result.text, /out of memory/);
  assert.equal(validator.allPassed, false);
});

test("FIRSTDIFF_INPUT names the inputs to use", async () => {
  assert.equal(await openInput(), undefined);
  const file = join(mkdtempSync(join(tmpdir(), "input-")), "in.npz");
  writeFileSync(file, writeNpz({ ids: BigInt64Array.of(1n, 2n) }));
  process.env.FIRSTDIFF_INPUT = file;
  try {
    assert.deepEqual([...(await openInput()).load("ids").data], [1n, 2n]);
  } finally {
    delete process.env.FIRSTDIFF_INPUT;
  }
});
