import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";

import { FolderRecorder, FirstdiffError, readNpy, readNpz, record, writeNpz, ZipRecorder } from "../dist/node.js";
import { readZip, join as joinBytes } from "../dist/zip.js";

const folder = () => mkdtempSync(join(tmpdir(), "firstdiff-"));
const lines = (path) => readFileSync(join(path, "tensors.jsonl"), "utf8").trimEnd().split("\n").filter(Boolean).map((line) => JSON.parse(line));
const header = (path) => JSON.parse(readFileSync(join(path, "trace.json"), "utf8"));

afterEach(() => {
  for (const name of ["FIRSTDIFF_TRACE", "FIRSTDIFF_ONLY", "FIRSTDIFF_INPUT"]) delete process.env[name];
});

test("a folder holds what was tapped, in order", () => {
  const path = join(folder(), "a", "mine.trace");
  const rec = new FolderRecorder(path, { header: { seed: 42 } });
  const mel = Float32Array.of(1, 2, 3, 4, 5, 6);
  assert.equal(rec.tap("mel", mel, [2, 3]), mel);
  rec.tap("ids", BigInt64Array.of(5n, 6n));
  rec.tap("loss", 0.5, { step: 3, op: "mean", attrs: { eps: 1e-5, scale: Infinity }, dims: "b" });
  rec.tap("hidden", { dtype: "bfloat16", shape: [1], data: Uint16Array.of(0x3f80) }, { role: "input", slot: 1, rank: 1, world: 2 });
  assert.equal(header(path).complete, false);
  rec.close();
  rec.close();
  assert.deepEqual(lines(path), [
    { name: "mel", role: "tap", seq: 0, file: "000000.npy", dtype: "float32", shape: [2, 3] },
    { name: "ids", role: "tap", seq: 1, file: "000001.npy", dtype: "int64", shape: [2] },
    { name: "loss", role: "tap", step: 3, seq: 2, op: "mean", attrs: { eps: 1e-5, scale: "inf" }, dims: "b", file: "000002.npy", dtype: "float64", shape: [] },
    { name: "hidden", role: "input", slot: "1", seq: 3, rank: 1, world: 2, file: "000003.npy", dtype: "bfloat16", shape: [1] },
  ]);
  assert.deepEqual([...readNpy(readFileSync(join(path, "000000.npy"))).data], [1, 2, 3, 4, 5, 6]);
  assert.equal(header(path).complete, true);
  assert.equal(header(path).seed, 42);
  assert.equal(header(path).tensors, 4);
});

test("values are on disk when tap returns, and copied in memory", async () => {
  const path = join(folder(), "t");
  const buffer = new Float32Array(4).fill(1);
  const disk = new FolderRecorder(path);
  const memory = new ZipRecorder();
  disk.tap("a", buffer);
  memory.tap("a", buffer);
  buffer.fill(9);
  assert.deepEqual([...readNpy(readFileSync(join(path, "000000.npy"))).data], [1, 1, 1, 1]);
  const members = await readZip(joinBytes(memory.zip()));
  assert.deepEqual([...readNpy(members.get("000000.npy")).data], [1, 1, 1, 1]);
});

test("a name that is repeated is counted as calls of its step", () => {
  const path = join(folder(), "t");
  const rec = new FolderRecorder(path);
  for (const step of [0, 0, 1]) rec.tap("x", 1, { step });
  assert.deepEqual(lines(path).map(({ call, step }) => [call ?? 0, step ?? 0]), [[0, 0], [1, 0], [0, 1]]);
});

test("tensors of onnxruntime-web are taken as they are", async () => {
  const rec = new ZipRecorder();
  rec.tap("logits", { type: "float32", dims: [1, 2], data: Float32Array.of(1, 2), location: "cpu" });
  rec.tap("mask", { type: "bool", dims: [2], data: Uint8Array.of(1, 0) });
  rec.tap("half", { type: "float16", dims: [1], data: Uint16Array.of(0x3c00) });
  if (globalThis.Float16Array) rec.tap("half16", { type: "float16", dims: [1], data: Float16Array.of(1) });
  assert.throws(() => rec.tap("words", { type: "string", dims: [1], data: ["a"] }), /words has elements of type string/);
  const members = await readZip(joinBytes(rec.zip()));
  const dtypes = new TextDecoder().decode(members.get("tensors.jsonl")).trimEnd().split("\n").map((line) => JSON.parse(line).dtype);
  assert.deepEqual(dtypes.slice(0, 3), ["float32", "bool", "float16"]);
  assert.deepEqual([...readNpy(members.get("000002.npy")).data], [0x3c00]);
});

test("without FIRSTDIFF_TRACE nothing is recorded and nothing is read", () => {
  const rec = record();
  assert.equal(rec.enabled, false);
  const trap = new Proxy({}, { get: () => assert.fail("the value was touched") });
  assert.equal(rec.tap("x", trap), trap);
  rec.close();
});

test("FIRSTDIFF_TRACE and FIRSTDIFF_ONLY are honoured", () => {
  process.env.FIRSTDIFF_TRACE = join(folder(), "env.trace");
  process.env.FIRSTDIFF_INPUT = "inputs/short.npz";
  process.env.FIRSTDIFF_ONLY = "layers.*.mlp, logit?";
  const rec = record(undefined, { only: ["layers.[0-3].*", "logits"] });
  for (const name of ["layers.0.mlp", "layers.7.mlp", "layers.0.attn", "logits", "logits2", "mel"]) rec.tap(name, 1);
  rec.close();
  assert.deepEqual(lines(process.env.FIRSTDIFF_TRACE).map(({ name }) => name), ["layers.0.mlp", "logits"]);
  assert.equal(header(process.env.FIRSTDIFF_TRACE).input, "inputs/short.npz");
});

test("names are text, never paths", () => {
  const path = join(folder(), "t");
  const rec = new FolderRecorder(path);
  const names = ["../../etc/passwd", "a/b\\c", "..", "", "C:\\x", "line\nbreak", "nul\0", "Ωμέγα 🎵", "\ud800"];
  for (const name of names) rec.tap(name, 1);
  rec.close();
  assert.deepEqual(lines(path).map(({ name }) => name), names);
  assert.deepEqual(readdirSync(path).filter((file) => !/^\d{6}\.npy$/.test(file)).sort(), ["tensors.jsonl", "trace.json"]);
});

test("names in an .npz are encoded where they could be paths", async () => {
  const names = ["../up", "a/b", "a\\b", "..", ".", "", "100%", "50%2F", "C:", "plain.name", "Ω"];
  const npz = writeNpz(Object.fromEntries(names.map((name, index) => [name, Float64Array.of(index)])));
  for (const member of (await readZip(npz)).keys()) assert.doesNotMatch(member, /[/\\:]|^\.+$/);
  const back = await readNpz(npz);
  assert.deepEqual([...back.keys()].sort(), [...names].sort());
  assert.deepEqual([...back.get("50%2F").data], [7]);
});

test("a tensor that cannot be recorded leaves the trace as it was", () => {
  const path = join(folder(), "t");
  const rec = new FolderRecorder(path);
  rec.tap("good", 1);
  assert.throws(() => rec.tap("bad", new Float32Array(4), [3]), { name: "FirstdiffError", message: "bad has 4 elements, but its shape [3] has 3" });
  assert.throws(() => rec.tap("bad", "text"), /bad is no tensor/);
  assert.throws(() => rec.tap("bad", null), /bad is no tensor/);
  assert.throws(() => rec.tap("bad", 1, { role: "outpt" }), /role outpt/);
  assert.throws(() => rec.tap("bad", 1, { slot: "a:b" }), /slot a:b/);
  rec.tap("nan", Float32Array.of(NaN, Infinity));
  rec.close();
  assert.deepEqual(lines(path).map(({ name, seq }) => [name, seq]), [["good", 0], ["nan", 1]]);
  assert.equal(header(path).complete, true);
  assert.equal(readdirSync(path).length, 4);
  assert.throws(() => rec.tap("late", 1), /late was tapped after the trace was closed/);
});

test("a folder that cannot be written is said, and nothing is left", () => {
  const base = folder();
  writeFileSync(join(base, "file"), "");
  assert.throws(() => new FolderRecorder(join(base, "file", "t")), /cannot write a trace to .*file.t \(E/);
  mkdirSync(join(base, "t", "tensors.jsonl"), { recursive: true });
  assert.throws(() => new FolderRecorder(join(base, "t")), /cannot write a trace to/);
  assert.equal(existsSync(join(base, "t", "trace.json")), false);
});

test("a trace that is there is replaced only on request", () => {
  const path = join(folder(), "t");
  const first = new FolderRecorder(path);
  for (let n = 0; n < 3; n++) first.tap("a", n);
  first.close();
  writeFileSync(join(path, "notes.txt"), "mine");
  assert.throws(() => new FolderRecorder(path), /holds a trace already; choose another folder, or pass overwrite: true/);
  const second = new FolderRecorder(path, { overwrite: true });
  second.tap("b", 1);
  second.close();
  assert.deepEqual(readdirSync(path).sort(), ["000000.npy", "notes.txt", "tensors.jsonl", "trace.json"]);
});

const full = { skip: !existsSync("/dev/full") && "there is no /dev/full" };

test("a full disk ends the trace: what was whole stays, and trace.json says why", full, () => {
  for (const [torn, left] of [["000001.npy", true], ["tensors.jsonl", false]]) {
    const path = join(folder(), "t");
    mkdirSync(path);
    symlinkSync("/dev/full", join(path, torn));
    const rec = new FolderRecorder(path);
    if (left) rec.tap("first", 1);
    assert.throws(() => rec.tap("second", 2), /cannot write second \(ENOSPC/);
    assert.throws(() => rec.tap("third", 3), (error) => error instanceof FirstdiffError && /earlier tensor could not be written/.test(error.message));
    rec.close();
    assert.equal(header(path).complete, false);
    assert.match(header(path).error, /cannot write second \(ENOSPC/);
    if (left) assert.deepEqual(lines(path).map(({ name }) => name), ["first"]);
    assert.deepEqual(readdirSync(path).filter((file) => file.endsWith(".npy")), left ? ["000000.npy"] : []);
  }
});
