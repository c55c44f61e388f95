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
