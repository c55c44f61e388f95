import assert from "node:assert/strict";
import { test } from "node:test";
import { createHash, randomBytes } from "node:crypto";
import { deflateRawSync } from "node:zlib";

import { sha256, sha256Bytes } from "../dist/sha256.js";
import { join, readZip, writeZip } from "../dist/zip.js";

const text = (content) => new TextEncoder().encode(content);

/** An archive with one deflated member, made of a stored one. */
function deflated(name, content, packed = deflateRawSync(content)) {
  const stored = Buffer.from(join(writeZip([{ name, parts: [content] }])));
  const head = Buffer.from(stored.subarray(0, 30 + name.length));
  const rest = Buffer.from(stored.subarray(30 + name.length + content.length));
  head.writeUInt16LE(8, 8);
  head.writeUInt32LE(packed.length, 18);
  rest.writeUInt16LE(8, 10);
  rest.writeUInt32LE(packed.length, 20);
  rest.writeUInt32LE(head.length + packed.length, rest.length - 6);
  return Buffer.concat([head, packed, rest]);
}

test("members come back in order, with unicode names", async () => {
  const zip = join(writeZip([{ name: "b", parts: [text("x"), text("y")] }, { name: "Ω/a", parts: [] }]));
  assert.deepEqual([...(await readZip(zip))], [["b", text("xy")], ["Ω/a", new Uint8Array()]]);
});

test("deflated members are unpacked", async () => {
  const content = new Uint8Array(randomBytes(100_000));
  assert.deepEqual((await readZip(deflated("a", content))).get("a"), content);
});

test("more members than a plain zip can count", async () => {
  const entries = Array.from({ length: 66_000 }, (_, number) => ({ name: `${number}`, parts: [] }));
  assert.equal((await readZip(join(writeZip(entries)))).size, 66_000);
});

test("a damaged archive is an error that names it", async () => {
  const zip = join(writeZip([{ name: "a", parts: [text("content")] }]));
  for (let cut = 0; cut < zip.length; cut++) {
    await assert.rejects(readZip(zip.subarray(0, cut), "x.zip"), { name: "FirstdiffError", message: /^x\.zip/ });
  }
  const flipped = zip.slice();
  flipped[33] ^= 1;
  await assert.rejects(readZip(flipped, "x.zip"), /x.zip\/a: the member is damaged/);
  const content = text("content".repeat(1000));
  await assert.rejects(readZip(deflated("a", content, Buffer.alloc(20, 7)), "x.zip"), /x.zip\/a: the member is damaged/);
  await assert.rejects(readZip(deflated("a", content, deflateRawSync("longer".repeat(10_000))), "x.zip"), /cannot be unpacked/);
  const twice = join(writeZip([{ name: "a", parts: [] }, { name: "a", parts: [] }]));
  await assert.rejects(readZip(twice, "x.zip"), /two members are called a/);
});

test("digests are those of the engine, by our own code too", async () => {
  for (const size of [0, 1, 55, 56, 63, 64, 65, 1000]) {
    const bytes = new Uint8Array(randomBytes(size));
    const expected = createHash("sha256").update(bytes).digest("hex");
    assert.equal(await sha256(bytes), expected);
    assert.equal(Buffer.from(sha256Bytes(bytes)).toString("hex"), expected);
  }
});
