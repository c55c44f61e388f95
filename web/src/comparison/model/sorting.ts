import { toNumber } from "./numbers";
import type { Num } from "./numbers";
import type { RowLine } from "./types";

export interface SortKey {
  readonly id: string;
  readonly label: string;
  readonly value: (row: RowLine) => Num | null;
}

/** Everything rows can be sorted by; the first is the order of execution. Metrics that sort alike share an entry. */
export const SORTS: readonly SortKey[] = [
  { id: "order", label: "order of execution", value: (row) => row.index },
  { id: "ratio", label: "worst / allowed", value: (row) => row.ratio },
  { id: "max_abs", label: "max abs", value: (row) => row.max_abs },
  { id: "mean_abs", label: "mean abs", value: (row) => row.mean_abs },
  { id: "max_rel", label: "max rel", value: (row) => row.max_rel },
  { id: "mean_rel", label: "mean rel", value: (row) => row.mean_rel },
  { id: "rel_l2", label: "rel L2, SQNR", value: (row) => row.rel_l2 },
  { id: "one_minus_cosine", label: "1 − cosine", value: (row) => row.one_minus_cosine },
  { id: "rmse", label: "RMSE, MSE", value: (row) => row.rmse },
  { id: "nmse", label: "NMSE", value: (row) => row.nmse },
  { id: "max_ulp", label: "max ULP", value: (row) => row.max_ulp },
  { id: "mismatched", label: "mismatched", value: (row) => row.mismatched },
  { id: "elements", label: "elements", value: (row) => row.elements },
];

export interface Sort {
  readonly by: string;
  readonly descending: boolean;
}

export const IN_ORDER: Sort = { by: "order", descending: false };

/** Rows without the metric come last whichever way; NaN counts as worse than any number. Ties keep their order. */
export function sorted(rows: readonly RowLine[], sort: Sort): readonly RowLine[] {
  if (sort.by === "order" && !sort.descending) return rows;
  const key = SORTS.find((candidate) => candidate.id === sort.by) ?? SORTS[0]!;
  const sign = sort.descending ? -1 : 1;
  const keyed = rows.map((row) => ({ row, value: rank(key.value(row)) }));
  keyed.sort((a, b) => {
    if (a.value === null || b.value === null) {
      return a.value === b.value ? a.row.index - b.row.index : a.value === null ? 1 : -1;
    }
    return a.value === b.value ? a.row.index - b.row.index : sign * (a.value < b.value ? -1 : 1);
  });
  return keyed.map((item) => item.row);
}

/** NaN is put with infinity, so that the worst rows stand together. */
function rank(value: Num | null): number | null {
  const number = toNumber(value);
  return number !== null && Number.isNaN(number) ? Number.POSITIVE_INFINITY : number;
}
