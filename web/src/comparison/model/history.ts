import type { RowLine } from "../../api/types";

/** Where rows of an earlier result stand in a new one; null for one that is gone. Tensors are known by their keys. */
export function moved(before: readonly RowLine[], after: readonly RowLine[]): (index: number) => number | null {
  const places = new Map<string, number>();
  for (const row of after) {
    for (const name of names(row)) if (!places.has(name)) places.set(name, row.index);
  }
  const earlier = new Map(before.map((row) => [row.index, row]));
  return (index) => {
    const row = earlier.get(index);
    const known = row === undefined ? undefined : names(row).find((name) => places.has(name));
    return known === undefined ? null : (places.get(known) ?? null);
  };
}

/** The reference's name counts before the candidate's: a pair that is dropped stays with its reference. */
function names(row: RowLine): readonly string[] {
  const reference = row.status === "extra" ? [] : [`reference ${row.key}`];
  return row.candidate_name === null ? reference : [...reference, `candidate ${row.candidate_name}`];
}

/** The rows opened one after another, as the back button goes through them. */
export type Trail = readonly number[];

export interface Step {
  readonly trail: Trail;
  readonly open: number | null;
  readonly close: readonly number[];
}

/** What to open and close when the address names another row: going back closes what was opened since. */
export function stepTo(trail: Trail, row: number | null): Step {
  if (row === null) return { trail: [], open: null, close: trail };
  const earlier = trail.lastIndexOf(row);
  if (earlier < 0) return { trail: [...trail, row], open: row, close: [] };
  return { trail: trail.slice(0, earlier + 1), open: row, close: trail.slice(earlier + 1) };
}
