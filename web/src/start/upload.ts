import { ApiError, pause, waitBefore } from "../api/client";
import type { Provider } from "../api/provider";
import type { FileClaim, Upload, UploadFile } from "../api/types";
import { digest } from "./sha256";
import { type PickedFile, totalSize } from "./picking";

/** Speed over the last few seconds, and the time that is left at it. */
const WINDOW = 5000;

export interface Pace {
  perSecond: number | null;
  secondsLeft: number | null;
}

export class Rate {
  #seen: { at: number; done: number }[] = [];

  take(done: number, total: number, at: number = performance.now()): Pace {
    this.#seen.push({ at, done });
    while (this.#seen.length > 2 && at - (this.#seen[0]?.at ?? at) > WINDOW) this.#seen.shift();
    const oldest = this.#seen[0];
    if (!oldest || at - oldest.at < 200 || done <= oldest.done) return { perSecond: null, secondsLeft: null };
    const perSecond = ((done - oldest.done) / (at - oldest.at)) * 1000;
    return { perSecond, secondsLeft: (total - done) / perSecond };
  }
}

/** Sends files in pieces, each with its digest; goes on where an interrupted upload of the same files stopped. */
export const PIECE = 8 * 2 ** 20;
const DAMAGED_TRIES = 3;

export interface Sending {
  done: number;
  total: number;
  /** The server does not answer: we wait for it. */
  waiting: boolean;
}

export interface SendOptions {
  signal: AbortSignal;
  tell: (state: Sending) => void;
  /** Told as soon as the upload has an id, so that it can be gone on with after a reload. */
  begun: (upload: Upload) => void;
}

/** Sends all files and returns the id of the upload that holds them. */
export async function sendFiles(provider: Provider, files: readonly PickedFile[], options: SendOptions): Promise<string> {
  return new Sender(provider, files, options).run();
}

class Sender {
  readonly #provider: Provider;
  readonly #files: readonly PickedFile[];
  readonly #options: SendOptions;
  readonly #total: number;
  #done = 0;

  constructor(provider: Provider, files: readonly PickedFile[], options: SendOptions) {
    this.#provider = provider;
    this.#files = files;
    this.#options = options;
    this.#total = totalSize(files);
  }

  async run(): Promise<string> {
    const heads: string[] = [];
    for (const picked of this.#files) heads.push(await readable(picked, () => digest(picked.file.slice(0, PIECE))));
    const upload = await this.#patiently(() => this.#open(heads));
    this.#options.begun(upload);
    this.#done = upload.files.reduce((sum, { have }) => sum + have, 0);
    this.#tell();
    for (const there of upload.files) await this.#sendFile(upload.id, there, heads[there.index] ?? "");
    return upload.id;
  }

  async #open(heads: readonly string[]): Promise<Upload> {
    const { signal } = this.#options;
    const claims: FileClaim[] = this.#files.map(({ name, file }) => ({ name, size: file.size }));
    const found = await this.#provider.findUpload(claims, heads, signal);
    return found && (await this.#agrees(found)) ? found : this.#provider.startUpload(claims, signal);
  }

  /** Whether every piece the server holds is what our files hold there; the server has compared the first ones. */
  async #agrees(upload: Upload): Promise<boolean> {
    for (const there of upload.files) {
      const picked = this.#files[there.index];
      if (picked?.name !== there.name || picked.file.size !== there.size) return false;
      for (const { start, size, digest: known } of there.chunks.slice(1)) {
        this.#options.signal.throwIfAborted();
        if ((await readable(picked, () => digest(picked.file.slice(start, start + size)))) !== known) return false;
      }
    }
    return true;
  }

  async #sendFile(id: string, there: UploadFile, head: string): Promise<void> {
    const picked = this.#files[there.index];
    if (!picked) return;
    let have = there.have;
    while (have < picked.file.size) {
      const body = picked.file.slice(have, have + PIECE);
      const sum = have === 0 ? head : await readable(picked, () => digest(body));
      const now = await this.#sendPiece(id, there.index, have, body, sum);
      this.#done += now - have;
      have = now;
      this.#tell();
    }
  }

  /** Sends one piece and returns how much of the file is there now, whoever sent it. */
  async #sendPiece(upload: string, index: number, offset: number, body: Blob, sum: string): Promise<number> {
    const { signal } = this.#options;
    const sent = (bytes: number): void => this.#tell(bytes);
    for (let damaged = 0; ; ) {
      try {
        return (await this.#provider.putPiece({ upload, index, offset, body, digest: sum, signal, sent })).have;
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status === 409) return haveOf(error, offset);
        if (error.dropped) {
          const now = await this.#patiently(() => this.#provider.upload(upload, signal));
          return now.files.find((file) => file.index === index)?.have ?? offset;
        }
        if (error.status !== 422 || ++damaged >= DAMAGED_TRIES) throw error;
      }
    }
  }

  /** Asks until there is an answer; only the caller's signal ends the wait for a server that is away. */
  async #patiently<T>(question: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await question();
      } catch (error) {
        if (!(error instanceof ApiError) || !error.dropped) throw error;
        this.#tell(0, true);
        await pause(waitBefore(attempt), this.#options.signal);
      }
    }
  }

  #tell(onTheWay = 0, waiting = false): void {
    this.#options.tell({ done: this.#done + onTheWay, total: this.#total, waiting });
  }
}

function haveOf(error: ApiError, otherwise: number): number {
  const { body } = error;
  return typeof body === "object" && body !== null && "have" in body && typeof body.have === "number" ? body.have : otherwise;
}

async function readable<T>(picked: PickedFile, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch {
    throw new Error(`“${picked.name}” could not be read: it was changed, moved or deleted after you chose it. Choose it again.`);
  }
}
