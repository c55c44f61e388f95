/** What the inspector asks of the server. */
import { ask, askJson } from "../api/client";
import type { Num } from "../format";
import type { Part } from "./model/slice_view";
import { Values } from "./model/values";

export type SideName = "reference" | "candidate" | "third";
export type Space = "aligned" | "original";

export interface TensorShape {
  shape: number[];
  dtype: string;
}

export interface Layout {
  aligned: { shape: number[] } | null;
  reference: TensorShape | null;
  candidate: TensorShape | null;
  /** The third in the layout of the other two, and as it lies. */
  third: TensorShape | null;
  third_original: TensorShape | null;
  recipe: string | null;
  steps: string[];
  audio: boolean;
  sample_rate: number | null;
  /** Sides whose files no longer hold what was compared. */
  changed: SideName[];
  /** Whether NaN was let match NaN. */
  equal_nan: boolean;
}

export interface Element {
  index: number[];
  reference: string;
  candidate: string;
  difference: Num | null;
  relative: Num | null;
  ulp: Num | null;
}

export interface Found {
  items: Element[];
  next: number | null;
  scanned: number;
  total: number;
}

export type SearchKind = "value" | "range" | "nan" | "inf" | "mismatch";

export interface Histogram {
  edges: number[];
  counts: number[];
  nan: number;
  inf: number;
  sampled: boolean;
}

export interface Profile {
  dim: number;
  max_abs: Num[];
  rms: Num[];
}

export interface SideStatistics {
  mean: Num | null;
  std: Num | null;
  min: Num | null;
  max: Num | null;
  nan: number;
  inf: number;
}

export interface MappingPart {
  at: string;
  shown: number[];
}

export interface Mapped {
  reference: SideStatistics;
  candidate: SideStatistics;
  max_abs: Num | null;
  mean_abs: Num | null;
  cosine: Num | null;
  identical: boolean;
  differing: number;
  elements: number;
  covers: boolean;
  words: string;
}

export interface TriedMapping {
  name: string;
  recipe: string;
  fits: boolean;
  cosine: Num | null;
  max_abs: Num | null;
}

export interface DepthPoint {
  index: number;
  key: string;
  layer: number | null;
  reference: Num | null;
  candidate: Num | null;
  third: Num | null;
}

/** Elements of several sides: a row for each element, a column for each side. */
export interface Scattered {
  sides: number;
  values: Float32Array;
}

/** One row of one comparison, as the inspector sees it. */
export class RowAddress {
  readonly base: string;
  readonly comparison: string;
  readonly row: number;
  /** Called when the files behind a side are no longer what they were. */
  onchanged: (side: SideName) => void = () => undefined;
  readonly #stamps = new Map<string, string>();

  constructor(comparison: string, row: number) {
    this.comparison = comparison;
    this.row = row;
    this.base = `/api/comparisons/${encodeURIComponent(comparison)}/rows/${row}`;
  }

  to(part: string, query: Record<string, string | number | undefined> = {}): string {
    const given = Object.entries(query).filter((entry): entry is [string, string | number] => entry[1] !== undefined);
    const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
    return `${this.base}/${part}${text ? `?${text}` : ""}`;
  }

  layout(signal?: AbortSignal): Promise<Layout> {
    return askJson(this.to("inspect"), { signal });
  }

  async slice(side: SideName, space: Space, part: Part, signal?: AbortSignal): Promise<Values> {
    const response = await ask(this.to("slice", { side, space, ...part }), { signal });
    this.#noteStamp(side, space, response.headers.get("X-Stamp"));
    const shape = (response.headers.get("X-Shape") ?? "").split(",").filter(Boolean).map(Number);
    return new Values(await response.arrayBuffer(), shape, response.headers.get("X-Dtype") ?? "");
  }

  /** The stamp of a side's files changes when they do. */
  #noteStamp(side: SideName, space: Space, stamp: string | null): void {
    const before = this.#stamps.get(`${side} ${space}`);
    if (stamp === null || stamp === before) return;
    this.#stamps.set(`${side} ${space}`, stamp);
    if (before !== undefined) this.onchanged(side);
  }

  async overview(side: SideName | "difference" | "third_difference", at: string, rows: number, columns: number, signal?: AbortSignal): Promise<{ rows: number; columns: number; cells: Float32Array }> {
    const response = await ask(this.to("overview", { side, at, rows, columns }), { signal });
    const [high = 0, wide = 0] = (response.headers.get("X-Shape") ?? "").split(",").map(Number);
    return { rows: high, columns: wide, cells: new Float32Array(await response.arrayBuffer()) };
  }

  async largest(count: number, signal?: AbortSignal): Promise<Element[]> {
    return (await askJson<{ items: Element[] }>(this.to("largest", { count }), { signal })).items;
  }

  search(asked: { kind: SearchKind; side: SideName; low?: string | undefined; high?: string | undefined; after?: number | undefined }, signal?: AbortSignal): Promise<Found> {
    return askJson(this.to("search", { ...asked, count: 1 }), { signal });
  }

  /** One for each side, all over the same bins. */
  async histograms(sides: readonly SideName[], at: string | undefined, bins: number, signal?: AbortSignal): Promise<Histogram[]> {
    return (await askJson<{ items: Histogram[] }>(this.to("histogram", { sides: sides.join(), at, bins }), { signal })).items;
  }

  async scatter(at: string | undefined, count: number, signal?: AbortSignal): Promise<Scattered> {
    const response = await ask(this.to("scatter", { at, count }), { signal });
    const sides = Number((response.headers.get("X-Shape") ?? "").split(",")[1] ?? 2);
    return { sides, values: new Float32Array(await response.arrayBuffer()) };
  }

  profile(dim: number, signal?: AbortSignal): Promise<Profile> {
    return askJson(this.to("profile", { dim }), { signal });
  }

  mapping(reference: MappingPart, candidate: MappingPart, signal?: AbortSignal): Promise<Mapped> {
    return askJson(this.to("mapping"), { method: "POST", json: { reference, candidate }, signal, retries: 2 });
  }

  async commonMappings(signal?: AbortSignal): Promise<TriedMapping[]> {
    return (await askJson<{ tried: TriedMapping[] }>(this.to("mapping/common"), { method: "POST", signal })).tried;
  }

  async depth(at: string, signal?: AbortSignal): Promise<DepthPoint[]> {
    const query = new URLSearchParams({ row: String(this.row), at });
    const path = `/api/comparisons/${encodeURIComponent(this.comparison)}/depth?${query}`;
    return (await askJson<{ points: DepthPoint[] }>(path, { signal })).points;
  }

  exportAddress(side: SideName, space: Space, part: Part, format: "npy" | "csv"): string {
    return this.to("export", { side, space, ...part, format });
  }
}
