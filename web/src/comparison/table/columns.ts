/** The columns of the table; those with `sort` can be clicked. `class` decides at which width they are left out. */
export interface Column {
  readonly id: string;
  readonly label: string;
  readonly sort: string | null;
  readonly numeric: boolean;
}

export const PAIR_COLUMNS: readonly Column[] = [
  { id: "verdict", label: "Verdict", sort: null, numeric: false },
  { id: "name", label: "Tensor", sort: "order", numeric: false },
  { id: "shape", label: "Shape", sort: "elements", numeric: false },
  { id: "spark", label: "× allowed", sort: "ratio", numeric: false },
  { id: "max_abs", label: "Max abs", sort: "max_abs", numeric: true },
  { id: "rel_l2", label: "Rel L2", sort: "rel_l2", numeric: true },
  { id: "one_minus_cosine", label: "1 − cosine", sort: "one_minus_cosine", numeric: true },
  { id: "mismatched", label: "Mismatched", sort: "mismatched", numeric: true },
  { id: "origin", label: "Origin", sort: null, numeric: false },
];

export const LOOK_COLUMNS: readonly Column[] = [
  { id: "name", label: "Tensor", sort: "order", numeric: false },
  { id: "shape", label: "Shape", sort: "elements", numeric: false },
  { id: "elements", label: "Elements", sort: "elements", numeric: true },
];
