/** Recorders: whatever is tapped becomes a tensor of a trace. */

import { FirstdiffError, toTensor, type TensorLike } from "./dtypes.js";
import { littleEndianBytes, npyHeader, copyBytes } from "./npy.js";
import { upload, type Posted, type PostOptions } from "./upload.js";
import { writeZip } from "./zip.js";

export const HEADER = "trace.json";
export const LINES = "tensors.jsonl";
const PRODUCER = { name: "firstdiff-js", version: "0.1.0" };

export type Role = "input" | "output" | "param" | "buffer" | "grad" | "tap";
const ROLES: readonly string[] = ["input", "output", "param", "buffer", "grad", "tap"];

/** What is known of a tensor beside its name and values; the trace format explains each field. */
export interface TapOptions {
  readonly shape?: readonly number[];
  readonly role?: Role;
  readonly slot?: string | number;
  readonly call?: number;
  readonly step?: number;
  readonly rank?: number;
  readonly world?: number;
  readonly op?: string;
  readonly attrs?: Readonly<Record<string, unknown>>;
  readonly parent?: string;
  readonly from?: readonly number[];
  readonly dims?: string;
}

/**
 * only: globs over names, one of which must fit; FIRSTDIFF_ONLY, separated by commas, narrows them further
 * producer, header: fields of trace.json, such as `seed`
 */
export interface RecorderOptions {
  readonly only?: readonly string[];
  readonly producer?: Readonly<Record<string, unknown>>;
  readonly header?: Readonly<Record<string, unknown>>;
}

/** Where a trace is kept while it is recorded. Each call keeps all it is given, or throws and keeps nothing. */
export interface TraceStore {
  begin(header: string): void;
  save(file: string, header: Uint8Array, values: Uint8Array): void;
  forget(file: string): void;
  append(line: string): void;
  finish(header: string): void;
}

/**
 * Records what is tapped. Values are copied at once, so a buffer may be used again.
 *
 * store: where to; without one nothing is recorded, and a tap costs a branch
 */
export class Recorder {
  private readonly filters: readonly (readonly RegExp[])[];
  private readonly header: Record<string, unknown>;
  private readonly calls = new Map<string, number>();
  private count = 0;
  private failure: string | undefined;
  private closed = false;

  constructor(
    protected readonly store: TraceStore | undefined,
    options: RecorderOptions = {},
  ) {
    const input = environment("FIRSTDIFF_INPUT");
    const only = environment("FIRSTDIFF_ONLY")?.split(",") ?? [];
    this.filters = [options.only ?? [], only]
      .map((globs) => globs.map((glob) => glob.trim()).filter(Boolean).map(globPattern))
      .filter((patterns) => patterns.length);
    this.header = {
      format: "firstdiff-trace",
      version: 1,
      producer: { ...PRODUCER, ...options.producer },
      ...(input ? { input } : {}),
      ...options.header,
      complete: false,
    };
    store?.begin(headerText(this.header));
  }

  /** False where taps are ignored, so that values need not be computed for them. */
  get enabled(): boolean {
    return this.store !== undefined;
  }

  get tensors(): number {
    return this.count;
  }

  /** Record a tensor under a name and give it back; FirstdiffError says why it cannot be recorded. */
  tap<T extends TensorLike>(name: string, value: T, options?: TapOptions | readonly number[]): T {
    if (this.store !== undefined) this.record(this.store, name, value, options);
    return value;
  }

  /** Mark the trace complete; after a failure, say in it why there is no more. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    const failed = this.failure === undefined ? { complete: true } : { error: this.failure };
    this.store?.finish(headerText({ ...this.header, ...failed, tensors: this.count }));
  }

  private record(store: TraceStore, name: string, value: TensorLike, options?: TapOptions | readonly number[]): void {
    if (this.closed) throw new FirstdiffError(`${name} was tapped after the trace was closed`);
    if (!this.filters.every((patterns) => patterns.some((pattern) => pattern.test(name)))) return;
    const given: TapOptions = isShape(options) ? { shape: options } : (options ?? {});
    const tensor = toTensor(name, value, given.shape);
    const line = this.line(name, given);
    if (this.failure !== undefined) {
      throw new FirstdiffError(`cannot write ${name}: an earlier tensor could not be written (${this.failure})`);
    }
    const file = `${String(this.count).padStart(6, "0")}.npy`;
    try {
      store.save(file, npyHeader(tensor.dtype, tensor.shape), littleEndianBytes(tensor.data));
      store.append(lineText({ ...line, file, dtype: tensor.dtype, shape: tensor.shape }));
    } catch (error) {
      store.forget(file);
      // no line may follow one that is torn
      this.failure = `cannot write ${name} (${error instanceof Error ? error.message : error})`;
      throw new FirstdiffError(this.failure);
    }
    this.count++;
  }

  private line(name: string, given: TapOptions): Record<string, unknown> {
    const role = given.role ?? "tap";
    const slot = String(given.slot ?? 0);
    if (!ROLES.includes(role)) throw new FirstdiffError(`${name} has the role ${role}, which is none of ${ROLES.join(", ")}`);
    if (/[@:#]/.test(slot)) throw new FirstdiffError(`${name} has the slot ${slot}, which has one of @ : # in it`);
    const { step = 0, rank = 0, world = 1 } = given;
    const key = JSON.stringify([name, role === "tap" ? "output" : role, slot, step, rank]);
    const call = given.call ?? this.calls.get(key) ?? 0;
    this.calls.set(key, call + 1);
    return {
      name,
      role,
      ...(slot === "0" ? {} : { slot }),
      ...(call ? { call } : {}),
      ...(step ? { step } : {}),
      seq: this.count,
      op: given.op,
      attrs: given.attrs,
      parent: given.parent,
      from: given.from,
      ...(rank ? { rank } : {}),
      ...(world === 1 ? {} : { world }),
      dims: given.dims,
    };
  }
}

/**
 * Records into memory; the trace becomes a zip to download, or is posted to `firstdiff serve`.
 *
 * ```js
 * const rec = new ZipRecorder();
 * rec.tap("mel", mel, [80, 100]);      // a typed array and its shape
 * rec.tap("logits", results.logits);   // a tensor of onnxruntime-web
 * rec.download("browser.trace.zip");
 * ```
 */
export class ZipRecorder extends Recorder {
  private readonly memory: MemoryStore;

  constructor(options: RecorderOptions = {}) {
    const memory = new MemoryStore();
    super(memory, options);
    this.memory = memory;
  }

  /** Close the trace and return it as a zip, in pieces that share memory with it. */
  zip(): Uint8Array[] {
    this.close();
    return writeZip(this.memory.entries());
  }

  blob(): Blob {
    return new Blob(this.zip() as Uint8Array<ArrayBuffer>[], { type: "application/zip" });
  }

  /** Let the browser save the trace as a file. */
  download(file = "run.trace.zip"): void {
    const address = URL.createObjectURL(this.blob());
    const link = document.createElement("a");
    link.href = address;
    link.download = file;
    link.click();
    // the download has begun by then, and the memory is free again
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }

  /** Send the trace to `firstdiff serve`, which must let this page in (`--allow-origin`). */
  post(server = "http://127.0.0.1:8585", options: PostOptions = {}): Promise<Posted> {
    return upload(this.blob(), server, options);
  }
}

class MemoryStore implements TraceStore {
  private readonly files = new Map<string, Uint8Array[]>();
  private readonly lines: string[] = [];
  private header = "";

  begin(header: string): void {
    this.header = header;
  }

  save(file: string, header: Uint8Array, values: Uint8Array): void {
    this.files.set(file, [header, copyBytes(values)]);
  }

  forget(file: string): void {
    this.files.delete(file);
  }

  append(line: string): void {
    this.lines.push(line);
  }

  finish(header: string): void {
    this.header = header;
  }

  entries(): { name: string; parts: Uint8Array[] }[] {
    const text = (content: string) => [new TextEncoder().encode(content)];
    const data = [...this.files].map(([name, parts]) => ({ name, parts }));
    return [{ name: HEADER, parts: text(this.header) }, { name: LINES, parts: text(this.lines.join("")) }, ...data];
  }
}

/** Return a variable of the environment; a browser has none. */
export function environment(name: string): string | undefined {
  return globalThis.process?.env?.[name] || undefined;
}

/** Return the pattern of a glob: `*`, `?` and `[a-z]` as the shell has them, and `*` matches dots and slashes too. */
export function globPattern(glob: string): RegExp {
  const source = glob.replace(/\*|\?|\[!?[^\]]+\]|[\s\S]/g, (part) => {
    if (part === "*") return "[\\s\\S]*";
    if (part === "?") return "[\\s\\S]";
    if (part.length > 2) return part.replace(/^\[!/, "[^").replace(/\\/g, "\\\\");
    return part.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  });
  return new RegExp(`^${source}$`);
}

function headerText(header: Readonly<Record<string, unknown>>): string {
  return `${JSON.stringify(header, finiteNumbers, 1)}\n`;
}

function lineText(line: Readonly<Record<string, unknown>>): string {
  return `${JSON.stringify(line, finiteNumbers)}\n`;
}

/** Numbers that JSON lacks are strings, and whole numbers beyond 2^53 keep their digits as one. */
function finiteNumbers(_: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "number" || Number.isFinite(value)) return value;
  return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

function isShape(options: TapOptions | readonly number[] | undefined): options is readonly number[] {
  return Array.isArray(options);
}
