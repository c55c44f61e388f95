/** This client's program for the conformance set; tests/conformance/README.md describes what it must do. */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { FolderRecorder, openGoldenPath, Rng, Validator } from "../dist/node.js";
import { dtypeOf, elementsOf } from "../dist/dtypes.js";

const SEED = 33;
const [command, ...rest] = process.argv.slice(2);
const out = [];

const commands = { write: () => write(rest, false), crash: () => write(rest, true), read, check, draws };
await commands[command]();
process.stdout.write(out.join(""));

function table(file) {
  const [header, ...lines] = readFileSync(file, "ascii").trimEnd().split("\n").map((line) => line.split("\t"));
  return lines.map((line) => Object.fromEntries(header.map((name, index) => [name, line[index]])));
}

function write([tensors, folder], crash) {
  let rec;
  let current;
  for (const line of table(tensors)) {
    if ((line.trace === "crash") !== crash) continue;
    if (line.trace !== current) {
      rec?.close();
      rec = new FolderRecorder(join(folder, line.trace));
      current = line.trace;
    }
    const [rank, world, step] = [line.rank, line.world, line.step].map(Number);
    const shape = line.shape === "scalar" ? [] : line.shape.split(",").map(Number);
    const text = (field) => (field === "-" ? undefined : decodeURIComponent(field));
    const slot = decodeURIComponent(line.slot);
    const value = { dtype: line.dtype, shape, data: values(line, shape) };
    rec.tap(decodeURIComponent(line.name), value, { role: line.role, slot, step, rank, world, op: text(line.op), dims: text(line.dims) });
  }
  if (crash) process.abort();
  rec.close();
}

function values(line, shape) {
  const kind = dtypeOf(line.dtype);
  const rng = new Rng(SEED, Number(line.stream));
  const count = elementsOf(shape);
  if (line.values === "normal") return rng.fillNormal(line.dtype === "float32" ? new Float32Array(count) : new Float64Array(count));
  const bytes = new Uint8Array(count * kind.itemsize);
  if (line.values.startsWith("hex:")) bytes.set(Buffer.from(line.values.slice(4), "hex"));
  else for (let at = 0, word = 0; at < bytes.length; at++, word >>>= 8) bytes[at] = word = at % 4 ? word : rng.nextU32();
  if (line.dtype === "bool") bytes.forEach((byte, index) => (bytes[index] = byte & 1));
  return new kind.array(bytes.buffer);
}

async function read() {
  for (const folder of rest) {
    const golden = await openGoldenPath(folder);
    out.push(golden.isTrace ? (golden.complete ? "complete\n" : "incomplete\n") : "plain\n");
    for (const { name, call, step, role, slot, rank, load } of golden.entries) {
      const { dtype, shape, data } = load();
      const fields = [encode(name), call, step, role, encode(slot), rank, dtype, shape.join(",") || "scalar", fnv(data)];
      out.push(`${fields.join("\t")}\n`);
    }
  }
}

function encode(text) {
  const bytes = Buffer.from(text);
  const encoded = Array.from(bytes, (byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9._-]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
  return encoded === "-" ? "%2D" : encoded;
}

function fnv(data) {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, "0");
}

async function check() {
  const [cases, folder] = rest;
  const goldens = new Map();
  for (const { trace, name, change } of table(cases)) {
    if (!goldens.has(trace)) goldens.set(trace, await openGoldenPath(join(folder, trace)));
    const validator = new Validator(goldens.get(trace));
    const tensor = validator.loadGolden(decodeURIComponent(name));
    let { shape } = tensor;
    const bytes = new Uint8Array(tensor.data.buffer);
    if (change.startsWith("shape:")) shape = change.slice(6).split(",").map(Number);
    if (change.startsWith("set:")) {
      for (const part of change.slice(4).split(";")) {
        const [index, hex] = part.split(":");
        bytes.set(Buffer.from(hex, "hex"), Number(index) * dtypeOf(tensor.dtype).itemsize);
      }
    }
    const asked = decodeURIComponent(name) + (change === "absent" ? "-absent" : "");
    const { status, beyond, nan, inf, maxDifference } = validator.check(asked, { ...tensor, shape });
    const counted = status === "pass" || status === "value";
    out.push(`${[status, ...(counted ? [beyond, nan + inf, double(maxDifference)] : ["-", "-", "-"])].join("\t")}\n`);
  }
}

function double(value) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

function draws() {
  const count = 1000;
  const fresh = () => new Rng(0x0123456789abcdefn, 0xfedcba9876543210n);
  const word = (value) => value.toString(16).padStart(8, "0");
  const single = (value) => word(new Uint32Array(Float32Array.of(value).buffer)[0]);
  const section = (heading, draw) => {
    const rng = fresh();
    out.push(`# ${heading}\n`, ...Array.from({ length: count }, (_, number) => `${draw(rng, number)}\n`));
  };
  section("next_u32", (rng) => word(rng.nextU32()));
  section("jumps", (rng, number) => ((rng.position = number * 4294967311), word(rng.nextU32())));
  section("uniform", (rng) => double(rng.uniform()));
  section("uniform_f32", (rng) => single(rng.uniformF32()));
  section("normal", (rng) => double(rng.normal()));
  section("gumbel", (rng) => double(rng.gumbel()));
  for (const [low, high] of [[0, 10], [-1000, 3221224472], [0, 4294967296]]) {
    section(`integers ${low} ${high}`, (rng) => rng.integers(low, high));
  }
  out.push(`# permutation ${count}\n`, ...Array.from(fresh().permutation(count), (value) => `${value}\n`));
}
