/** Bytes that were squeezed with gzip and written as base64. */
export async function unpacked(text: string): Promise<ArrayBuffer> {
  const squeezed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([squeezed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

export async function unpackedJson<T>(text: string): Promise<T> {
  return JSON.parse(new TextDecoder().decode(await unpacked(text))) as T;
}

/** Parts of tensors cut out of an embedded box. */
export interface Box {
  begin: readonly number[];
  shape: readonly number[];
}

/** What is taken of one dimension; a dimension held at one index is dropped from the result. */
export interface Taken {
  from: number;
  to: number;
  held: boolean;
}

/** Reads `0,3,0:16,:` for a shape. */
export function parseCut(text: string, shape: readonly number[]): Taken[] {
  const parts = text === "" ? [] : text.split(",");
  return shape.map((length, dim) => {
    const part = parts[dim] ?? ":";
    if (!part.includes(":")) return { from: Number(part), to: Number(part) + 1, held: true };
    const [from = "", to = ""] = part.split(":");
    return { from: from === "" ? 0 : Number(from), to: to === "" ? length : Math.min(length, Number(to)), held: false };
  });
}

export function holds(box: Box, cut: readonly Taken[]): boolean {
  return cut.every(({ from, to }, dim) => from >= (box.begin[dim] ?? 0) && to <= (box.begin[dim] ?? 0) + (box.shape[dim] ?? 0));
}

/** The bytes of a cut in C order. */
export function cutOut(bytes: Uint8Array, box: Box, cut: readonly Taken[]): { bytes: Uint8Array<ArrayBuffer>; shape: number[] } {
  const elements = box.shape.reduce((product, length) => product * length, 1);
  const width = elements ? bytes.length / elements : 0;
  const lengths = cut.map(({ from, to }) => Math.max(0, to - from));
  const found = new Uint8Array(lengths.reduce((product, length) => product * length, 1) * width);
  const last = cut.length - 1;
  const run = (last < 0 ? 1 : (lengths[last] ?? 0)) * width;
  const runs = run ? found.length / run : 0;
  for (let place = 0; place < runs; place++) {
    const at = startOf(place, box, cut, lengths) * width;
    found.set(bytes.subarray(at, at + run), place * run);
  }
  return { bytes: found, shape: lengths.filter((_, dim) => !cut[dim]?.held) };
}

/** Where in the box the run of a given number begins. */
function startOf(place: number, box: Box, cut: readonly Taken[], lengths: readonly number[]): number {
  let rest = place;
  let stride = 1;
  let at = 0;
  for (let dim = cut.length - 1; dim >= 0; dim--) {
    const begin = (cut[dim]?.from ?? 0) - (box.begin[dim] ?? 0);
    const length = dim === cut.length - 1 ? 1 : (lengths[dim] ?? 1);
    at += (begin + (rest % length)) * stride;
    rest = Math.floor(rest / length);
    stride *= box.shape[dim] ?? 1;
  }
  return at;
}

/** Answers for the page out of what is embedded in a shared file. */
interface Packed extends Box {
  sides: { side: string; dtype: string; bytes: number }[];
  packed: string;
}

interface Data {
  comparison: string;
  answers: string;
  blocks: Record<string, Packed[]>;
}

type Answers = Record<string, unknown>;

const NOT_HERE = "This shared file does not hold that part. Compare the two runs with firstdiff to see it.";
const SLICE = /^\/rows\/(\d+)\/slice$/;
const SCATTER = /^\/rows\/(\d+)\/scatter$/;

export class Embedded {
  readonly comparison: string;
  readonly #blocks: Record<string, Packed[]>;
  readonly #answers: Promise<Answers>;
  readonly #open = new Map<Packed, Promise<Uint8Array>>();

  constructor(text: string) {
    const data = JSON.parse(text) as Data;
    this.comparison = data.comparison;
    this.#blocks = data.blocks;
    this.#answers = unpackedJson<Answers>(data.answers);
  }

  async answer(path: string, init: RequestInit): Promise<Response> {
    const address = new URL(path, "http://localhost");
    const part = address.pathname.slice(`/api/comparisons/${encodeURIComponent(this.comparison)}`.length);
    if (part.endsWith("/largest")) address.searchParams.delete("count");
    address.searchParams.sort();
    const query = address.searchParams.toString();
    if ((init.method ?? "GET") !== "GET") return refused(405);
    const written = (await this.#answers)[decodeURIComponent(query ? `${part}?${query}` : part)];
    if (written !== undefined) return Response.json(written);
    const slice = SLICE.exec(part);
    if (slice?.[1]) return this.#slice(slice[1], address.searchParams);
    const scatter = SCATTER.exec(part);
    if (scatter?.[1]) return this.#scatter(scatter[1], Number(address.searchParams.get("count")));
    return refused(404);
  }

  async #slice(row: string, asked: URLSearchParams): Promise<Response> {
    const layout = (await this.#answers)[`/rows/${row}/inspect`] as { aligned: { shape: number[] } | null } & Record<string, { shape: number[] } | null>;
    const side = asked.get("side") ?? "";
    const shape = layout?.aligned?.shape ?? layout?.[side]?.shape;
    if (!shape) return refused(404);
    const flat = asked.get("flat");
    for (const block of this.#blocks[row] ?? []) {
      const entry = block.sides.find((one) => one.side === side);
      if (!entry) continue;
      if (flat !== null) {
        if (!isWhole(block, shape)) continue;
        const [from = 0, to = 0] = flat.split(":").map(Number);
        const bytes = await this.#bytes(block, side);
        const size = shape.reduce((product, length) => product * length, 1);
        const width = size ? bytes.length / size : 0;
        const part = bytes.slice(from * width, Math.min(to, size) * width);
        return values(part, [width ? part.length / width : 0], entry.dtype);
      }
      const cut = parseCut(asked.get("at") ?? "", shape);
      if (!holds(block, cut)) continue;
      const part = cutOut(await this.#bytes(block, side), block, cut);
      return values(part.bytes, part.shape, entry.dtype);
    }
    return refused(404);
  }

  /** Evenly spread elements of every side, where all of them are here. */
  async #scatter(row: string, count: number): Promise<Response> {
    const { Values } = await import("../api/values");
    const shape = ((await this.#answers)[`/rows/${row}/inspect`] as { aligned: { shape: number[] } | null } | undefined)?.aligned?.shape;
    const block = this.#blocks[row]?.find((one) => shape && isWhole(one, shape));
    if (!block || !shape) return refused(404);
    const sides = await Promise.all(
      block.sides.map(async ({ side, dtype }) => new Values((await this.#bytes(block, side)).slice().buffer, shape, dtype)),
    );
    const size = sides[0]?.size ?? 0;
    const step = Math.max(1, Math.ceil(size / count));
    const points = new Float32Array(Math.ceil(size / step) * sides.length);
    for (let place = 0; place < size; place += step) sides.forEach((one, which) => (points[(place / step) * sides.length + which] = one.number(place)));
    return values(new Uint8Array(points.buffer), [points.length / sides.length, sides.length], "float32");
  }

  async #bytes(block: Packed, side: string): Promise<Uint8Array> {
    let opened = this.#open.get(block);
    if (!opened) {
      opened = unpacked(block.packed).then((buffer) => new Uint8Array(buffer));
      this.#open.set(block, opened);
    }
    const before = block.sides.slice(0, block.sides.findIndex((one) => one.side === side)).reduce((sum, one) => sum + one.bytes, 0);
    const own = block.sides.find((one) => one.side === side)?.bytes ?? 0;
    return (await opened).subarray(before, before + own);
  }
}

function isWhole(box: Box, shape: readonly number[]): boolean {
  return shape.every((length, dim) => box.shape[dim] === length);
}

function values(bytes: Uint8Array<ArrayBuffer>, shape: readonly number[], dtype: string): Response {
  return new Response(bytes, { headers: { "X-Shape": shape.join(), "X-Dtype": dtype } });
}

function refused(status: number): Response {
  return Response.json({ error: NOT_HERE }, { status });
}
