/** What needs a disk: traces and golden data in folders. Everything of `firstdiff` is exported here as well. */

import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { basename, join } from "node:path";

import { FirstdiffError } from "./dtypes.js";
import { Golden, openGolden } from "./golden.js";
import { environment, HEADER, LINES, Recorder, type RecorderOptions, type TraceStore } from "./recorder.js";

export * from "./index.js";

/** overwrite: replace a trace that is there */
export interface FolderOptions extends RecorderOptions {
  readonly overwrite?: boolean;
}

/**
 * Record into a folder, or where FIRSTDIFF_TRACE says; with neither, taps are ignored.
 *
 * ```js
 * const rec = record();
 * rec.tap("mel", mel, [80, 100]);
 * rec.close();
 * ```
 */
export function record(path?: string, options: FolderOptions = {}): Recorder {
  const folder = path ?? environment("FIRSTDIFF_TRACE");
  return folder ? new FolderRecorder(folder, options) : new Recorder(undefined, options);
}

/** Records into a new folder. Values are on disk when `tap` returns; a crash loses at most the tensor being written. */
export class FolderRecorder extends Recorder {
  constructor(
    readonly path: string,
    options: FolderOptions = {},
  ) {
    super(new FolderStore(path, options.overwrite ?? false), options);
  }
}

/** Open golden data: a trace folder, a folder of `.npy` files with its subfolders, a zip of either, a `.npz`, a `.npy`. */
export async function openGoldenPath(path: string): Promise<Golden> {
  let files: Map<string, () => Uint8Array>;
  try {
    if (!statSync(path).isDirectory()) {
      if (!path.endsWith(".npy")) return await openGolden(readFileSync(path), path);
      files = new Map([[basename(path), () => readFileSync(path)]]);
    } else {
      files = new Map(filesBelow(path, "").map((name) => [name, () => readFileSync(join(path, name))]));
    }
  } catch (error) {
    if (error instanceof FirstdiffError) throw error;
    throw new FirstdiffError(`${path} cannot be read (${message(error)}); a folder, a zip or a .npz was expected`);
  }
  return new Golden(files, path);
}

/** Open what FIRSTDIFF_INPUT names, or return undefined: the inputs that both runs are to use. */
export async function openInput(): Promise<Golden | undefined> {
  const path = environment("FIRSTDIFF_INPUT");
  return path ? openGoldenPath(path) : undefined;
}

function filesBelow(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((item) => {
    const name = folder ? `${folder}/${item.name}` : item.name;
    return item.isDirectory() ? filesBelow(root, name) : [name];
  });
}

class FolderStore implements TraceStore {
  private header = -1;
  private lines = -1;

  constructor(
    private readonly path: string,
    private readonly overwrite: boolean,
  ) {}

  begin(header: string): void {
    const exists = existsSync(join(this.path, HEADER));
    if (exists && !this.overwrite) {
      throw new FirstdiffError(`${this.path} holds a trace already; choose another folder, or pass overwrite: true`);
    }
    try {
      mkdirSync(this.path, { recursive: true });
      if (exists) this.clear();
      // created by us alone: a second writer of this folder is refused
      this.header = openSync(join(this.path, HEADER), "wx");
      this.replaceHeader(header);
      this.lines = openSync(join(this.path, LINES), "w");
    } catch (error) {
      if (this.header >= 0) {
        closeSync(this.header);
        unlinkSync(join(this.path, HEADER));
      }
      throw new FirstdiffError(`cannot write a trace to ${this.path} (${message(error)})`);
    }
  }

  save(file: string, header: Uint8Array, values: Uint8Array): void {
    const data = openSync(join(this.path, file), "w");
    try {
      writeAll(data, header);
      writeAll(data, values);
    } finally {
      closeSync(data);
    }
  }

  forget(file: string): void {
    try {
      unlinkSync(join(this.path, file));
    } catch {
      // it was not there
    }
  }

  append(line: string): void {
    const before = fstatSync(this.lines).size;
    try {
      writeAll(this.lines, new TextEncoder().encode(line));
    } catch (error) {
      try {
        ftruncateSync(this.lines, before);
      } catch {
        // readers ignore a line without its end
      }
      throw error;
    }
  }

  finish(header: string): void {
    try {
      this.replaceHeader(header);
    } catch (error) {
      throw new FirstdiffError(`cannot finish ${this.path} (${message(error)})`);
    } finally {
      closeSync(this.lines);
      closeSync(this.header);
    }
  }

  /** In place, and longer every time, so that a crash leaves the old text or the new one's beginning. */
  private replaceHeader(text: string): void {
    const bytes = new TextEncoder().encode(text);
    writeAll(this.header, bytes, 0);
    if (fstatSync(this.header).size > bytes.length) ftruncateSync(this.header, bytes.length);
  }

  private clear(): void {
    for (const file of readdirSync(this.path)) {
      if (file === HEADER || file === LINES || /^\d{6,}\.npy$/.test(file)) unlinkSync(join(this.path, file));
    }
  }
}

function writeAll(file: number, bytes: Uint8Array, position: number | null = null): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(file, bytes, done, bytes.length - done, position === null ? null : position + done);
  }
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
