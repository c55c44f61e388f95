/** The one thing between the page and its data. Pages and components ask a `Provider`, never the network. */
import { askJson, put } from "./client";
import { listen } from "./events";
import { RowValues } from "./row_values";
import type {
  About,
  CompareIn,
  Diagnosed,
  Edits,
  Entries,
  Entry,
  FileClaim,
  FirstRow,
  Head,
  Judged,
  JudgeIn,
  PairSide,
  Progress,
  Project,
  ReportFormat,
  RowDetail,
  RowLine,
  TensorLine,
  Upload,
} from "./types";

export interface Watching {
  state: (entry: Entry) => void;
  progress: (progress: Progress) => void;
  connected?: (up: boolean) => void;
}

/** A part of one file of an upload, and where in the file it starts. */
export interface UploadPiece {
  upload: string;
  index: number;
  offset: number;
  body: Blob;
  /** The sha256 of the body, as hex. */
  digest: string;
  signal?: AbortSignal;
  /** Told how many bytes of the body are on the way. */
  sent?: (bytes: number) => void;
}

export interface Provider {
  about(): Promise<About>;
  comparisons(signal?: AbortSignal): Promise<Entries>;
  compare(wanted: CompareIn): Promise<Entry>;
  demo(name: string): Promise<Entry>;
  /** The project that the server was started in, if there is one. */
  project(signal?: AbortSignal): Promise<Project | null>;
  /** The comparison behind the latest validation of an input set. */
  compareProject(inputSet: string): Promise<Entry>;
  comparison(id: string, signal?: AbortSignal): Promise<{ entry: Entry; comparison: Head | null; first: FirstRow | null }>;
  rename(id: string, name: string): Promise<Entry>;
  remove(id: string): Promise<void>;
  cancel(id: string): Promise<Entry>;
  rerun(id: string): Promise<Entry>;
  /** Follows a comparison until it ends; returns what stops following. */
  watch(id: string, watching: Watching): () => void;
  rows(id: string, signal?: AbortSignal): Promise<RowLine[]>;
  rowDetail(id: string, row: number, signal?: AbortSignal): Promise<RowDetail>;
  /** Looks for the cause of one row, however long it takes. */
  diagnoseRow(id: string, row: number, signal?: AbortSignal): Promise<Diagnosed>;
  rowValues(id: string, row: number): RowValues;
  /** Judges all rows by other tolerances. */
  judge(id: string, wanted: JudgeIn, signal?: AbortSignal): Promise<Judged>;
  /** The text of a file with these tolerances. */
  tolerancesFile(id: string, wanted: JudgeIn): Promise<string>;
  edits(id: string, signal?: AbortSignal): Promise<Edits>;
  putEdits(id: string, changed: Edits): Promise<Entry>;
  tensors(id: string, side: PairSide, search: string, limit: number, signal?: AbortSignal): Promise<TensorLine[]>;
  reportAddress(id: string, format: ReportFormat): string;
  mapAddress(id: string): string;
  startUpload(files: readonly FileClaim[], signal?: AbortSignal): Promise<Upload>;
  /** An interrupted upload of the same files, if there is one. */
  findUpload(files: readonly FileClaim[], heads: readonly string[], signal?: AbortSignal): Promise<Upload | null>;
  upload(id: string, signal?: AbortSignal): Promise<Upload>;
  putPiece(piece: UploadPiece): Promise<{ have: number }>;
  dropUpload(id: string): Promise<void>;
}

const at = (id: string, rest = ""): string => `/api/comparisons/${encodeURIComponent(id)}${rest}`;

export const provider: Provider = {
  about: () => askJson("/api/about"),
  comparisons: (signal) => askJson("/api/comparisons", { signal }),
  compare: (wanted) => askJson("/api/comparisons", { method: "POST", json: wanted }),
  demo: (name) => askJson(`/api/demo?name=${encodeURIComponent(name)}`, { method: "POST" }),
  project: async (signal) => (await askJson<{ project: Project | null }>("/api/project", { signal })).project,
  compareProject: (inputSet) => askJson("/api/project/comparison", { method: "POST", json: { input_set: inputSet } }),
  comparison: (id, signal) => askJson(at(id), { signal }),
  rename: (id, name) => askJson(at(id), { method: "PATCH", json: { name } }),
  remove: (id) => askJson(at(id), { method: "DELETE" }),
  cancel: (id) => askJson(at(id, "/cancel"), { method: "POST" }),
  rerun: (id) => askJson(at(id, "/rerun"), { method: "POST" }),
  watch: (id, { state, progress, connected }) =>
    listen(at(id, "/events"), {
      on: { state: (data) => state(data as Entry), progress: (data) => progress(data as Progress) },
      ...(connected ? { connected } : {}),
    }),
  rows: async (id, signal) => (await askJson<{ rows: RowLine[] }>(at(id, "/rows"), { signal })).rows,
  rowDetail: (id, row, signal) => askJson(at(id, `/rows/${row}`), { signal }),
  diagnoseRow: (id, row, signal) => askJson(at(id, `/rows/${row}/diagnosis`), { method: "POST", signal }),
  rowValues: (id, row) => new RowValues(id, row),
  judge: (id, wanted, signal) => askJson(at(id, "/judge"), { method: "POST", json: wanted, signal, retries: 2 }),
  tolerancesFile: async (id, wanted) => (await askJson<{ toml: string }>(at(id, "/tolerances"), { method: "POST", json: wanted })).toml,
  edits: (id, signal) => askJson(at(id, "/edits"), { signal }),
  putEdits: (id, changed) => askJson(at(id, "/edits"), { method: "PUT", json: changed }),
  tensors: async (id, side, search, limit, signal) => {
    const query = new URLSearchParams({ side, search, limit: String(limit) });
    return (await askJson<{ tensors: TensorLine[] }>(at(id, `/tensors?${query}`), { signal })).tensors;
  },
  reportAddress: (id, format) => at(id, `/report?format=${format}`),
  mapAddress: (id) => at(id, "/map.toml"),
  startUpload: (files, signal) => askJson("/api/uploads", { method: "POST", json: { files }, signal }),
  findUpload: (files, heads, signal) =>
    askJson("/api/uploads/find", { method: "POST", json: { files, head: heads }, signal, retries: 3 }),
  upload: (id, signal) => askJson(`/api/uploads/${id}`, { signal }),
  putPiece: ({ upload, index, offset, body, digest, signal, sent }) =>
    put(`/api/uploads/${upload}/files/${index}?offset=${offset}`, {
      body,
      headers: { "Content-Type": "application/octet-stream", "X-Digest": digest },
      signal,
      sent,
    }),
  dropUpload: (id) => askJson(`/api/uploads/${id}`, { method: "DELETE" }),
};
