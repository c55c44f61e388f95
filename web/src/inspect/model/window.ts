/** The cells of a window in rows and columns, whichever of its dimensions is shown first. */
import type { Looking } from "./at";
import type { Values } from "./values";

export interface Cells {
  rows: number;
  columns: number;
  /** The place of a cell in the values that were sent. */
  place: (row: number, column: number) => number;
}

/** Values come in the order of the tensor's dimensions: a look that shows the later one first is turned. */
export function cellsOf(values: Values, look: Looking): Cells {
  if (look.arrangement !== "grid") return { rows: Math.min(1, values.size), columns: values.size, place: (_, column) => column };
  const [high = 1, wide = 1] = values.shape.slice(-2);
  const turned = (look.shown[0] ?? 0) > (look.shown[1] ?? 1);
  return turned
    ? { rows: wide, columns: high, place: (row, column) => column * wide + row }
    : { rows: high, columns: wide, place: (row, column) => row * wide + column };
}
