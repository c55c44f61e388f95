/** One side of the form: files to send, files already sent, or a path on this machine. */
import { sentence } from "../api/client";
import type { Provider } from "../api/provider";
import type { SideIn, Upload } from "../api/types";
import { isRecord, keep, kept } from "./session_storage";
import { labelOf, totalSize, type PickedFile } from "./picking";
import { type Pace, Rate, sendFiles, type Sending } from "./upload";

export type SideName = "reference" | "candidate" | "third";

const TITLES: Record<SideName, string> = { reference: "Reference", candidate: "Candidate", third: "Third trace" };

/** An upload of which the server holds all or a part. */
export interface Sent {
  id: string;
  label: string;
  files: number;
  bytes: number;
  have: number;
}

export class SideChoice {
  readonly name: SideName;
  path = $state("");
  files = $state.raw<readonly PickedFile[]>([]);
  sent = $state.raw<Sent | null>(null);
  sending = $state.raw<(Sending & Pace) | null>(null);
  error = $state<string | null>(null);
  readonly #provider: Provider;

  constructor(name: SideName, provider: Provider) {
    this.name = name;
    this.#provider = provider;
    this.path = kept(`${name}.path`, (value) => typeof value === "string") ?? "";
    this.sent = kept(`${name}.sent`, isSent);
  }

  get title(): string {
    return TITLES[this.name];
  }

  /** As it stands in a sentence: "the third trace". */
  get words(): string {
    return `the ${this.title.toLowerCase()}`;
  }

  get label(): string {
    return this.files.length ? labelOf(this.files) : (this.sent?.label ?? this.path.trim());
  }

  get complete(): boolean {
    return this.sent !== null && this.sent.have === this.sent.bytes;
  }

  /** An upload was interrupted and its files are no longer in this tab: they have to be chosen again. */
  get interrupted(): boolean {
    return this.sent !== null && !this.complete && this.files.length === 0;
  }

  get filled(): boolean {
    return this.files.length > 0 || this.complete || (!this.interrupted && this.path.trim() !== "");
  }

  /** Asks the server what is left of an upload this tab remembers. */
  async recall(): Promise<void> {
    const { sent } = this;
    if (!sent) return;
    try {
      this.#remember({ ...sent, have: haveOf(await this.#provider.upload(sent.id)) });
    } catch {
      this.#remember(null);
    }
  }

  choose(files: readonly PickedFile[]): void {
    this.error = files.length ? null : "There is no file in what you chose.";
    if (!files.length) return;
    const same = this.sent?.label === labelOf(files) && this.sent.bytes === totalSize(files);
    if (!same) this.#remember(null);
    this.files = files;
    this.setPath("");
  }

  setPath(path: string): void {
    this.path = path;
    keep(`${this.name}.path`, path || null);
  }

  /** Empties the side; what the server holds of it goes too, unless a comparison uses it. */
  clear(): void {
    const { sent } = this;
    this.forget();
    if (sent) this.#provider.dropUpload(sent.id).catch(() => undefined);
  }

  /** Empties the side without touching what the server holds: a comparison owns it now. */
  forget(): void {
    this.files = [];
    this.error = null;
    this.setPath("");
    this.#remember(null);
  }

  /** Sends what must be sent and returns what the comparison is to be started with. */
  async ready(signal: AbortSignal): Promise<SideIn> {
    if (this.sent && this.complete) return { upload: this.sent.id };
    if (this.files.length === 0) return { path: this.path.trim() };
    const rate = new Rate();
    const tell = (state: Sending): void => {
      this.sending = { ...state, ...(state.waiting ? { perSecond: null, secondsLeft: null } : rate.take(state.done, state.total)) };
    };
    tell({ done: 0, total: totalSize(this.files), waiting: false });
    try {
      const id = await sendFiles(this.#provider, this.files, { signal, tell, begun: (upload) => this.#remember(this.#sentOf(upload)) });
      if (this.sent) this.#remember({ ...this.sent, have: this.sent.bytes });
      return { upload: id };
    } catch (error) {
      if (!signal.aborted) this.error = sentence(error);
      if (this.sent && this.sending) this.#remember({ ...this.sent, have: this.sending.done });
      throw error;
    } finally {
      this.sending = null;
    }
  }

  #sentOf(upload: Upload): Sent {
    return { id: upload.id, label: this.label, files: this.files.length, bytes: totalSize(this.files), have: haveOf(upload) };
  }

  #remember(sent: Sent | null): void {
    this.sent = sent;
    keep(`${this.name}.sent`, sent);
  }
}

function haveOf(upload: Upload): number {
  return upload.files.reduce((sum, { have }) => sum + have, 0);
}

function isSent(value: unknown): value is Sent {
  return isRecord(value) && typeof value["id"] === "string" && typeof value["label"] === "string" && typeof value["bytes"] === "number";
}
