/** Zip archives: written stored, so that readers can map them; read stored or deflated. */

import { FirstdiffError } from "./dtypes.js";
import { copyBytes } from "./npy.js";

export interface ZipEntry {
  readonly name: string;
  /** the content, in pieces that are not joined */
  readonly parts: readonly Uint8Array[];
}

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const END64 = 0x06064b50;
const LOCATOR64 = 0x07064b50;
const MAX32 = 0xffffffff;
const MAX16 = 0xffff;
const UTF8_NAMES = 0x800;
const ENCRYPTED = 1;
/** 1980-01-01, so that equal content is an equal archive */
const NO_DATE = 0x0021;
const ZIP64_VERSION = 45;

/** Return the archive as pieces for a Blob or a file; the contents are not copied. */
export function writeZip(entries: readonly ZipEntry[]): Uint8Array[] {
  const out: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const { name, parts } of entries) {
    const encoded = new TextEncoder().encode(name);
    const size = parts.reduce((sum, part) => sum + part.length, 0);
    const fields = { name: encoded, size, crc: crc32(parts), offset };
    const head = localHeader(fields);
    out.push(head, ...parts);
    directory.push(centralHeader(fields));
    offset += head.length + size;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  return [...out, ...directory, endRecords(entries.length, size, offset)];
}

interface Fields {
  name: Uint8Array;
  size: number;
  crc: number;
  offset: number;
}

function localHeader({ name, size, crc }: Fields): Uint8Array {
  const large = size >= MAX32;
  const extra = large ? zip64Extra([size, size]) : new Uint8Array();
  const numbers = new Layout(30);
  numbers.u32(LOCAL).u16(large ? ZIP64_VERSION : 20).u16(UTF8_NAMES).u16(0).u16(0).u16(NO_DATE).u32(crc);
  numbers.u32(large ? MAX32 : size).u32(large ? MAX32 : size).u16(name.length).u16(extra.length);
  return join([numbers.bytes, name, extra]);
}

function centralHeader({ name, size, crc, offset }: Fields): Uint8Array {
  const large = size >= MAX32;
  const far = offset >= MAX32;
  const extra = large || far ? zip64Extra([...(large ? [size, size] : []), ...(far ? [offset] : [])]) : new Uint8Array();
  const version = large || far ? ZIP64_VERSION : 20;
  const numbers = new Layout(46);
  numbers.u32(CENTRAL).u16(version).u16(version).u16(UTF8_NAMES).u16(0).u16(0).u16(NO_DATE).u32(crc);
  numbers.u32(large ? MAX32 : size).u32(large ? MAX32 : size).u16(name.length).u16(extra.length).u16(0).u16(0).u16(0);
  numbers.u32(0).u32(far ? MAX32 : offset);
  return join([numbers.bytes, name, extra]);
}

function zip64Extra(values: readonly number[]): Uint8Array {
  const extra = new Layout(4 + 8 * values.length).u16(1).u16(8 * values.length);
  for (const value of values) extra.u64(value);
  return extra.bytes;
}

function endRecords(count: number, size: number, offset: number): Uint8Array {
  const end = new Layout(22).u32(END).u16(0).u16(0).u16(Math.min(count, MAX16)).u16(Math.min(count, MAX16));
  end.u32(Math.min(size, MAX32)).u32(Math.min(offset, MAX32)).u16(0);
  if (count < MAX16 && size < MAX32 && offset < MAX32) return end.bytes;
  const end64 = new Layout(56).u32(END64).u64(44).u16(ZIP64_VERSION).u16(ZIP64_VERSION).u32(0).u32(0);
  end64.u64(count).u64(count).u64(size).u64(offset);
  const locator = new Layout(20).u32(LOCATOR64).u32(0).u64(offset + size).u32(1);
  return join([end64.bytes, locator.bytes, end.bytes]);
}

/** Read every member of an archive, in the order of its directory; FirstdiffError says what is wrong with it. */
export async function readZip(archive: Uint8Array, label = "the archive"): Promise<Map<string, Uint8Array>> {
  const members = new Map<string, Uint8Array>();
  try {
    for (const member of readDirectory(archive, label)) {
      if (member.name.endsWith("/")) continue;
      if (members.has(member.name)) throw new FirstdiffError(`${label}: two members are called ${member.name}`);
      members.set(member.name, await readMember(archive, member, `${label}/${member.name}`));
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new FirstdiffError(`${label}: the archive is cut off or damaged`);
  }
  return members;
}

interface Member {
  name: string;
  flags: number;
  method: number;
  crc: number;
  packed: number;
  size: number;
  offset: number;
}

function readDirectory(archive: Uint8Array, label: string): Member[] {
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  let end = archive.length - 22;
  while (end >= 0 && end > archive.length - 22 - MAX16 && view.getUint32(end, true) !== END) end--;
  if (end < 0 || view.getUint32(end, true) !== END) {
    throw new FirstdiffError(`${label}: this is no zip archive, or its end is missing`);
  }
  let count = view.getUint16(end + 10, true);
  let at = view.getUint32(end + 16, true);
  if (end >= 20 && view.getUint32(end - 20, true) === LOCATOR64) {
    const end64 = u64(view, end - 12);
    count = u64(view, end64 + 32);
    at = u64(view, end64 + 48);
  }
  const members: Member[] = [];
  for (let number = 0; number < count; number++) {
    if (view.getUint32(at, true) !== CENTRAL) throw new RangeError("no entry of the directory");
    const nameLength = view.getUint16(at + 28, true);
    const extraLength = view.getUint16(at + 30, true);
    const member: Member = {
      name: new TextDecoder().decode(archive.subarray(at + 46, at + 46 + nameLength)),
      flags: view.getUint16(at + 8, true),
      method: view.getUint16(at + 10, true),
      crc: view.getUint32(at + 16, true),
      packed: view.getUint32(at + 20, true),
      size: view.getUint32(at + 24, true),
      offset: view.getUint32(at + 42, true),
    };
    readZip64(view, at + 46 + nameLength, extraLength, member);
    members.push(member);
    at += 46 + nameLength + extraLength + view.getUint16(at + 32, true);
  }
  return members;
}

function readZip64(view: DataView, start: number, length: number, member: Member): void {
  for (let at = start; at + 4 <= start + length; at += 4 + view.getUint16(at + 2, true)) {
    if (view.getUint16(at, true) !== 1) continue;
    let value = at + 4;
    for (const field of ["size", "packed", "offset"] as const) {
      if (member[field] === MAX32) {
        member[field] = u64(view, value);
        value += 8;
      }
    }
  }
}

async function readMember(archive: Uint8Array, member: Member, label: string): Promise<Uint8Array> {
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  if (member.flags & ENCRYPTED) throw new FirstdiffError(`${label}: the member is encrypted`);
  const start = member.offset + 30 + view.getUint16(member.offset + 26, true) + view.getUint16(member.offset + 28, true);
  if (view.getUint32(member.offset, true) !== LOCAL || start + member.packed > archive.length) {
    throw new FirstdiffError(`${label}: the archive is cut off or damaged`);
  }
  const packed = archive.subarray(start, start + member.packed);
  if (member.method === 0) {
    if (packed.length !== member.size || crc32([packed]) !== member.crc) {
      throw new FirstdiffError(`${label}: the member is damaged, its checksum does not fit`);
    }
    return packed;
  }
  if (member.method !== 8) throw new FirstdiffError(`${label}: packing method ${member.method} is not known; stored and deflate are`);
  return inflate(packed, member, label);
}

/** Unpack a member as if it were a gzip file, which every engine knows and whose checksum the engine tests. */
async function inflate(packed: Uint8Array, member: Member, label: string): Promise<Uint8Array> {
  const head = new Layout(10).u32(0x00088b1f).u32(0).u16(0xff00);
  const tail = new Layout(8).u32(member.crc).u32(member.size % (MAX32 + 1));
  const gzip = new Blob([head.bytes, copyBytes(packed), tail.bytes]);
  const out = new Uint8Array(member.size);
  let have = 0;
  try {
    const reader = gzip.stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      out.set(value, have); // a RangeError where the member is larger than it says
      have += value.length;
    }
  } catch {
    have = -1;
  }
  if (have !== member.size) throw new FirstdiffError(`${label}: the member is damaged and cannot be unpacked`);
  return out;
}

/** Writes little-endian numbers one after the other. */
class Layout {
  readonly bytes: Uint8Array<ArrayBuffer>;
  private readonly view: DataView;
  private at = 0;

  constructor(size: number) {
    this.bytes = new Uint8Array(size);
    this.view = new DataView(this.bytes.buffer);
  }

  u16(value: number): this {
    this.view.setUint16(this.at, value, true);
    this.at += 2;
    return this;
  }

  u32(value: number): this {
    this.view.setUint32(this.at, value, true);
    this.at += 4;
    return this;
  }

  u64(value: number): this {
    this.view.setBigUint64(this.at, BigInt(value), true);
    this.at += 8;
    return this;
  }
}

function u64(view: DataView, at: number): number {
  return Number(view.getBigUint64(at, true));
}

export function join(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

function crc32(parts: readonly Uint8Array[]): number {
  let crc = MAX32;
  for (const part of parts) {
    for (let index = 0; index < part.length; index++) {
      crc = (crc >>> 8) ^ (CRC_TABLE[(crc ^ (part[index] as number)) & 0xff] as number);
    }
  }
  return (crc ^ MAX32) >>> 0;
}
