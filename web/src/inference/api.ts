/** What the page "Browser inference" asks of the server. */
import { ask, askJson } from "../api/client";
import type { components } from "../api/schema";
import { asNumber } from "../format";

type Schemas = components["schemas"];
export type Model = Schemas["ModelOut"];
export type Run = Schemas["RunOut"];
export type Table = Schemas["TableOut"];
export type TensorRow = Schemas["TensorRow"];
export type Beside = Schemas["Against"];
export type OutputDistance = Schemas["OutputDistance"];
export type ValueType = Schemas["ValueType"];
export type Statistics = Schemas["Statistics"];
export type Provider = Run["provider"];
export type InputsIn = Partial<Schemas["InputsIn"]> & Pick<Schemas["InputsIn"], "kind">;
export type GivenFile = { path: string } | { upload: string } | { url: string };

export interface Part {
  readonly feeds: readonly string[];
  readonly values: readonly string[];
  readonly kept: readonly string[];
  readonly done: number;
  readonly model: Uint8Array;
}

/** A tensor as it travels: raw little-endian bytes. */
export interface SentTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array<ArrayBuffer>;
}

const at = (model: string, rest = ""): string => `/api/inference/models/${encodeURIComponent(model)}${rest}`;
const runAt = (model: string, run: string, rest = ""): string => at(model, `/runs/${encodeURIComponent(run)}${rest}`);

export const inference = {
  open: (given: GivenFile): Promise<Model> => askJson("/api/inference/models", { method: "POST", json: given }),
  model: (id: string): Promise<Model> => askJson(at(id)),
  file: async (id: string, index: number): Promise<ArrayBuffer> => (await ask(at(id, `/files/${index}`))).arrayBuffer(),
  setInputs: (id: string, wanted: InputsIn): Promise<Model> => askJson(at(id, "/inputs"), { method: "POST", json: wanted }),
  input: async (id: string, index: number): Promise<ArrayBuffer> => (await ask(at(id, `/inputs/${index}`))).arrayBuffer(),
  python: (id: string): Promise<Model> => askJson(at(id, "/python"), { method: "POST" }),
  torch: (id: string, path: string): Promise<Model> => askJson(at(id, "/torch"), { method: "POST", json: { path: path || null } }),
  start: (id: string, provider: Provider, optimize: boolean): Promise<Run> =>
    askJson(at(id, "/runs"), { method: "POST", json: { provider, optimize, agent: navigator.userAgent } }),
  run: (id: string, run: string): Promise<Run> => askJson(runAt(id, run)),
  part: async (id: string, run: string): Promise<Part | null> => {
    const response = await ask(runAt(id, run, "/part"), { retries: 0 });
    return response.status === 204 ? null : readPart(await response.arrayBuffer());
  },
  putPart: async (id: string, run: string, values: readonly SentTensor[], kinds: Record<string, string>): Promise<void> =>
    askJson(runAt(id, run, "/part"), { method: "POST", body: message({ values }, kinds) }),
  finish: (id: string, run: string, optimized: readonly SentTensor[], plain: readonly SentTensor[]): Promise<Run> =>
    askJson(runAt(id, run, "/finish"), { method: "POST", body: message({ optimized, plain }) }),
  fail: (id: string, run: string, text: string, own: boolean): Promise<Run> =>
    askJson(runAt(id, run, "/fail"), { method: "POST", json: { message: text, own } }),
  /** A connection that lasts as long as the tab, even if it crashes; call what is returned when the run is over. */
  watch: (id: string, run: string): (() => void) => {
    const source = new EventSource(runAt(id, run, "/watch"));
    return () => source.close();
  },
  /** The tab is about to go: a request that outlives it. */
  close: (id: string, run: string): boolean => navigator.sendBeacon(runAt(id, run, "/close")),
  table: (id: string, run: string, other: string | null): Promise<Table> =>
    askJson(runAt(id, run, `/table${other ? `?other=${encodeURIComponent(other)}` : ""}`)),
  log: (lines: readonly string[]): Promise<Schemas["LogOut"]> => askJson("/api/inference/log", { method: "POST", json: { lines } }),
  clearLog: (): Promise<Schemas["LogOut"]> => askJson("/api/inference/log", { method: "DELETE" }),
};

function readPart(data: ArrayBuffer): Part {
  const size = new DataView(data).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size))) as Omit<Part, "model">;
  return { ...head, model: new Uint8Array(data, 4 + size) };
}

/** Sets of tensors as one body: the length of a JSON head, the head, the bytes of all tensors. */
function message(sets: Record<string, readonly SentTensor[]>, kinds: Record<string, string> = {}): Blob {
  const described = Object.entries(sets).map(([name, tensors]) => [name, tensors.map((tensor) => ({ name: tensor.name, dtype: tensor.dtype, shape: tensor.shape }))]);
  const head = new TextEncoder().encode(JSON.stringify({ sets: Object.fromEntries(described), kinds }));
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, head.length, true);
  const bytes = Object.values(sets).flatMap((tensors) => tensors.map((tensor) => tensor.bytes));
  return new Blob([length, head, ...bytes], { type: "application/octet-stream" });
}

/** The largest of some distances; 0 where there is none. */
export function largest(distances: readonly OutputDistance[]): number {
  return distances.reduce((worst, { distance }) => {
    const value = asNumber(distance);
    return Number.isNaN(value) ? Infinity : Math.max(worst, value);
  }, 0);
}
