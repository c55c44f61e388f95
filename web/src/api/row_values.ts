/** The values of one row, as the inspector asks for them. */
import { ask, askJson } from "./client";
import type {
  AudioReport,
  BinnedValues,
  Element,
  ElementInLayer,
  FoundElements,
  Layout,
  MappedView,
  MappingPart,
  PairSide,
  Part,
  Profile,
  SearchKind,
  SideName,
  Space,
  TriedMapping,
} from "./types";
import { Values } from "./values";

/** Elements of several sides: a row for each element, a column for each side. */
export interface Scattered {
  sides: number;
  values: Float32Array;
}

/** The cell of largest magnitude under each pixel. */
export interface Overview {
  rows: number;
  columns: number;
  cells: Float32Array;
}

export interface ElementSearch {
  kind: SearchKind;
  side: SideName;
  low?: string | undefined;
  high?: string | undefined;
  after?: number | undefined;
}

type Heard = PairSide | "difference";

export class RowValues {
  readonly comparison: string;
  readonly row: number;
  /** Called when the files behind a side are no longer what they were. */
  onchanged: (side: SideName) => void = () => undefined;
  readonly #base: string;
  readonly #stamps = new Map<string, string>();

  constructor(comparison: string, row: number) {
    this.comparison = comparison;
    this.row = row;
    this.#base = `/api/comparisons/${encodeURIComponent(comparison)}/rows/${row}`;
  }

  layout(signal?: AbortSignal): Promise<Layout> {
    return askJson(this.#to("inspect"), { signal });
  }

  async slice(side: SideName, space: Space, part: Part, signal?: AbortSignal): Promise<Values> {
    const response = await ask(this.#to("slice", { side, space, ...part }), { signal });
    this.#noteStamp(side, space, response.headers.get("X-Stamp"));
    const shape = (response.headers.get("X-Shape") ?? "").split(",").filter(Boolean).map(Number);
    return new Values(await response.arrayBuffer(), shape, response.headers.get("X-Dtype") ?? "");
  }

  async overview(side: SideName | "difference" | "third_difference", at: string, rows: number, columns: number, signal?: AbortSignal): Promise<Overview> {
    const response = await ask(this.#to("overview", { side, at, rows, columns }), { signal });
    const [high = 0, wide = 0] = (response.headers.get("X-Shape") ?? "").split(",").map(Number);
    return { rows: high, columns: wide, cells: new Float32Array(await response.arrayBuffer()) };
  }

  async largest(count: number, signal?: AbortSignal): Promise<Element[]> {
    return (await askJson<{ items: Element[] }>(this.#to("largest", { count }), { signal })).items;
  }

  search(asked: ElementSearch, signal?: AbortSignal): Promise<FoundElements> {
    return askJson(this.#to("search", { ...asked, count: 1 }), { signal });
  }

  /** One for each side, all over the same bins. */
  async histograms(sides: readonly SideName[], at: string | undefined, bins: number, signal?: AbortSignal): Promise<BinnedValues[]> {
    return (await askJson<{ items: BinnedValues[] }>(this.#to("histogram", { sides: sides.join(), at, bins }), { signal })).items;
  }

  async scatter(at: string | undefined, count: number, signal?: AbortSignal): Promise<Scattered> {
    const response = await ask(this.#to("scatter", { at, count }), { signal });
    const sides = Number((response.headers.get("X-Shape") ?? "").split(",")[1] ?? 2);
    return { sides, values: new Float32Array(await response.arrayBuffer()) };
  }

  profile(dim: number, signal?: AbortSignal): Promise<Profile> {
    return askJson(this.#to("profile", { dim }), { signal });
  }

  mapping(reference: MappingPart, candidate: MappingPart, signal?: AbortSignal): Promise<MappedView> {
    return askJson(this.#to("mapping"), { method: "POST", json: { reference, candidate }, signal, retries: 2 });
  }

  async commonMappings(signal?: AbortSignal): Promise<TriedMapping[]> {
    return (await askJson<{ tried: TriedMapping[] }>(this.#to("mapping/common"), { method: "POST", signal })).tried;
  }

  async depth(at: string, signal?: AbortSignal): Promise<ElementInLayer[]> {
    const query = new URLSearchParams({ row: String(this.row), at });
    const path = `/api/comparisons/${encodeURIComponent(this.comparison)}/depth?${query}`;
    return (await askJson<{ points: ElementInLayer[] }>(path, { signal })).points;
  }

  audioReport(signal?: AbortSignal): Promise<AudioReport> {
    return askJson(this.#to("audio/report"), { signal });
  }

  audioAddress(side: Heard): string {
    return this.#to("audio", { side });
  }

  spectrogramAddress(side: Heard): string {
    return this.#to("audio/spectrogram", { side });
  }

  exportAddress(side: SideName, space: Space, part: Part, format: "npy" | "csv"): string {
    return this.#to("export", { side, space, ...part, format });
  }

  #to(part: string, query: Record<string, string | number | undefined> = {}): string {
    const given = Object.entries(query).filter((entry): entry is [string, string | number] => entry[1] !== undefined);
    const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
    return `${this.#base}/${part}${text ? `?${text}` : ""}`;
  }

  /** The stamp of a side's files changes when they do. */
  #noteStamp(side: SideName, space: Space, stamp: string | null): void {
    const before = this.#stamps.get(`${side} ${space}`);
    if (stamp === null || stamp === before) return;
    this.#stamps.set(`${side} ${space}`, stamp);
    if (before !== undefined) this.onchanged(side);
  }
}
