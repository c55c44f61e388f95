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
