/** Golden data: the tensors of a trace, or of a folder, zip or npz of `.npy` files, by name. */

import { dtypeOf, FirstdiffError, type Tensor } from "./dtypes.js";
import { readNpy } from "./npy.js";
import { decodeName } from "./npz.js";
import { HEADER, LINES } from "./recorder.js";
import { readZip } from "./zip.js";

/** One tensor: what identifies it, and its values on demand. */
export interface GoldenEntry {
  readonly name: string;
  readonly call: number;
  readonly step: number;
  readonly role: string;
  readonly slot: string;
  readonly rank: number;
  load(): Tensor;
}

/** Files by their path below a folder, with `/` between its parts. */
export type Files = ReadonlyMap<string, () => Uint8Array>;

const NPY = ".npy";

/** Read golden data from the bytes of a zipped trace, a zip of `.npy` files, or an `.npz`. */
export async function openGolden(archive: Uint8Array | ArrayBuffer | Blob, label = "golden"): Promise<Golden> {
  const bytes = archive instanceof Blob ? await archive.arrayBuffer() : archive;
  const members = await readZip(bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes), label);
  return new Golden(new Map([...members].map(([name, content]) => [name, () => content])), label);
}

/** Tensors by name. A name is looked up among what is there and never becomes a path. */
export class Golden {
  readonly entries: readonly GoldenEntry[];
  /** What trace.json says; undefined where there is no trace. */
  readonly complete: boolean | undefined;
  readonly isTrace: boolean;
  readonly warnings: readonly string[];
  private readonly byKey = new Map<string, GoldenEntry | null>();

  constructor(
    files: Files,
    readonly label: string,
  ) {
    const warnings: string[] = [];
    const lines = [...files.keys()].filter((path) => baseName(path) === LINES).sort((a, b) => a.length - b.length)[0];
    this.isTrace = lines !== undefined;
    if (lines !== undefined) {
      const folder = lines.slice(0, -LINES.length);
      this.complete = readHeader(files.get(folder + HEADER), label, warnings);
      this.entries = readTrace(files, folder, label, warnings);
      for (const entry of this.entries) this.add(keyText(entry), entry);
    } else {
      this.entries = readPlain(files, label);
      for (const entry of this.entries) this.add(entry.name, entry);
      for (const shorter of [dotted, baseName]) this.addUnique(shorter);
    }
    this.warnings = warnings;
  }

  /** Load a tensor by its name, or its key as in `layers.0.attn@1:in.0#s2`; FirstdiffError says what is wrong. */
  load(name: string): Tensor {
    const entry = this.byKey.get(name);
    if (entry === null) throw new FirstdiffError(`${this.label} has several tensors called ${name}; give the folder, too`);
    if (entry === undefined) throw new FirstdiffError(`${this.label} has no tensor ${name}${this.nearest(name)}`);
    return entry.load();
  }

  has(name: string): boolean {
    return Boolean(this.byKey.get(name));
  }

  private add(key: string, entry: GoldenEntry): void {
    if (!this.byKey.has(key)) this.byKey.set(key, entry);
  }

  /** Let a shorter name stand for a tensor where no other has it. */
  private addUnique(shorter: (name: string) => string): void {
    const found = new Map<string, GoldenEntry | null>();
    for (const entry of this.entries) found.set(shorter(entry.name), found.has(shorter(entry.name)) ? null : entry);
    for (const [key, entry] of found) if (!this.byKey.has(key)) this.byKey.set(key, entry);
  }

  private nearest(name: string): string {
    const last = name.toLowerCase().split(/[./]/).pop() ?? "";
    const near = [...this.byKey.keys()].filter((key) => last && key.toLowerCase().includes(last)).slice(0, 3);
    return near.length ? ` (did you mean ${near.join(", ")}?)` : `; it has ${this.entries.length}`;
  }
}

function readPlain(files: Files, label: string): GoldenEntry[] {
  const entries: GoldenEntry[] = [];
  for (const [path, read] of files) {
    if (!path.endsWith(NPY)) continue;
    const load = () => readNpy(read(), `${label}/${path}`);
    const name = path.slice(0, -NPY.length).split("/").map(decodeName).join("/");
    entries.push({ name, call: 0, step: 0, role: "output", slot: "0", rank: 0, load });
  }
  return entries.sort((one, other) => compareText(one.name, other.name));
}

function readHeader(read: (() => Uint8Array) | undefined, label: string, warnings: string[]): boolean {
  let header: { version?: unknown; complete?: unknown } | undefined;
  try {
    header = read && JSON.parse(new TextDecoder().decode(read()));
  } catch {
    header = undefined;
  }
  if (!header || typeof header !== "object") {
    warnings.push(`${label}: ${HEADER} is missing or not valid; the tensors were read without it`);
    return false;
  }
  if (typeof header.version === "number" && header.version > 1) {
    throw new FirstdiffError(`${label} is a trace of version ${header.version}; this client reads version 1: update it`);
  }
  if (header.complete === false) warnings.push(`${label}: the recording did not finish; tensors may be missing`);
  return header.complete === true;
}

type Line = Omit<GoldenEntry, "load"> & { seq: number | undefined; load: () => Tensor };

function readTrace(files: Files, folder: string, label: string, warnings: string[]): GoldenEntry[] {
  const text = new TextDecoder().decode(files.get(folder + LINES)?.());
  const parts = text.split("\n");
  const entries: Line[] = [];
  const seen = new Map<string, number>();
  parts.forEach((part, index) => {
    if (!part.trim()) return;
    let line: Line;
    try {
      line = parseLine(part, files, folder, label);
    } catch {
      const torn = index === parts.length - 1;
      warnings.push(torn ? `${label}: the last line of ${LINES} was cut off and ignored` : `${label}: line ${index + 1} of ${LINES} cannot be read`);
      return;
    }
    const again = seen.get(keyText(line)) ?? 0;
    seen.set(keyText(line), again + 1);
    // recorders need not count: a name that comes again is the next call
    if (again && line.call === 0) line = { ...line, call: again };
    entries.push(line);
  });
  if (entries.every((entry) => entry.seq !== undefined)) entries.sort((a, b) => (a.seq as number) - (b.seq as number));
  return entries;
}

function parseLine(text: string, files: Files, folder: string, label: string): Line {
  const line = JSON.parse(text) as Record<string, unknown>;
  if (typeof line.name !== "string" || typeof line.file !== "string") throw new FirstdiffError("a line without name or file");
  const { name, file } = line as { name: string; file: string };
  const load = (): Tensor => {
    const read = file.includes("/") ? undefined : files.get(folder + file);
    if (!read) throw new FirstdiffError(`${label}: the file ${JSON.stringify(file)} of ${name} is not in the trace`);
    const dtype = typeof line.dtype === "string" ? line.dtype : undefined;
    if (dtype) dtypeOf(dtype);
    const tensor = readNpy(read(), `${label}/${file}`, dtype);
    const shape = Array.isArray(line.shape) ? (line.shape as number[]) : tensor.shape;
    if (shape.join() !== tensor.shape.join()) {
      throw new FirstdiffError(`${label}: the shape of ${name} is [${shape}], but that of ${file} is [${tensor.shape}]`);
    }
    return tensor;
  };
  return {
    name,
    call: whole(line.call),
    step: whole(line.step),
    role: typeof line.role === "string" ? line.role : "output",
    slot: line.slot === undefined ? "0" : String(line.slot),
    rank: whole(line.rank),
    seq: typeof line.seq === "number" ? line.seq : undefined,
    load,
  };
}

/** The text that names a tensor: `layers.0.attn@1:in.0#s2#r3`. A tap is an output. */
export function keyText(entry: Omit<GoldenEntry, "load">): string {
  const { name, call, step, slot, rank } = entry;
  const role = entry.role === "tap" ? "output" : entry.role;
  const short = role === "input" ? "in" : role === "output" ? "out" : role;
  const suffixed = /(@\d+)?(:(in|out|param|buffer|grad|tap)(\.[^@:#]*)?)?(#s\d+)?(#r\d+)?$/.exec(name)?.[0];
  let text = call || suffixed ? `${name}@${call}` : name;
  if (short !== "out" || slot !== "0") {
    text += `:${short}`;
    if (slot !== "0" || short === "in" || short === "out") text += `.${slot}`;
  }
  return text + (step ? `#s${step}` : "") + (rank ? `#r${rank}` : "");
}

function whole(value: unknown): number {
  return Number.isSafeInteger(value) ? (value as number) : 0;
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function dotted(path: string): string {
  return path.replaceAll("/", ".");
}

/** Compare by the bytes of UTF-8, as other languages do. */
function compareText(one: string, other: string): number {
  const [a, b] = [one, other].map((text) => new TextEncoder().encode(text)) as [Uint8Array, Uint8Array];
  for (let index = 0; index < Math.min(a.length, b.length); index++) {
    if (a[index] !== b[index]) return (a[index] as number) - (b[index] as number);
  }
  return a.length - b.length;
}
