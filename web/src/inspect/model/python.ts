/** A slice as Python that reads it again. */
import type { Looking } from "./slice_view";

/** The tensors of one side: several where they were joined. */
export interface Named {
  path: string;
  keys: readonly string[];
}

type Side = "reference" | "candidate";

/** Through a recipe, both sides are read: it may change either, and may join several tensors of one. */
export function asPython(side: Side, sides: Record<Side, Named>, recipe: string | null, look: Looking, shape: readonly number[]): string {
  const taken = part(look, shape);
  if (recipe === null) return ["import firstdiff as fd", "", `${side} = ${joined(sides[side])}`, `${side}.view()${taken}`, ""].join("\n");
  return [
    "import firstdiff as fd",
    "from firstdiff.align import Alignment",
    "",
    `references = [${joined(sides.reference)}]`,
    `candidates = [${joined(sides.candidate)}]`,
    `reference, candidate = Alignment.parse(${JSON.stringify(recipe)}).apply(references, candidates)`,
    `${side}.view()${taken}`,
    "",
  ].join("\n");
}

function joined({ path, keys }: Named): string {
  return keys.map((key) => `fd.open_trace(${JSON.stringify(path)})[${JSON.stringify(key)}].values()`).join(", ");
}

function part(look: Looking, shape: readonly number[]): string {
  if (look.arrangement === "flat") return `.reshape(-1)[${look.flatStart}:${look.flatStart + look.flatCount}]`;
  return shape.length ? `[${shape.map((length, dim) => partOf(look, length, dim)).join(", ")}]` : "";
}

function partOf(look: Looking, length: number, dim: number): string {
  const place = look.shown.indexOf(dim);
  const from = look.start[place] ?? 0;
  return place < 0 ? String(look.index[dim] ?? 0) : `${from}:${Math.min(length, from + (look.count[place] ?? 1))}`;
}
