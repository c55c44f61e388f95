import type { Status } from "../../status";
import type { RowLine } from "./types";

/** What the user asked to see; an empty set or text asks for everything. */
export interface Filter {
  readonly text: string;
  readonly statuses: readonly Status[];
  readonly layer: string;
  readonly stage: string;
  readonly dtype: string;
}

export const EVERYTHING: Filter = { text: "", statuses: [], layer: "", stage: "", dtype: "" };

/** The value of the layer filter for rows that belong to no layer. */
export const NO_LAYER = "none";

export function isActive(filter: Filter): boolean {
  return (
    filter.text.trim() !== "" ||
    filter.statuses.length > 0 ||
    filter.layer !== "" ||
    filter.stage !== "" ||
    filter.dtype !== ""
  );
}

export function filtered(rows: readonly RowLine[], filter: Filter): readonly RowLine[] {
  if (!isActive(filter)) return rows;
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const statuses = new Set<string>(filter.statuses);
  return rows.filter(
    (row) =>
      (statuses.size === 0 || statuses.has(row.status)) &&
      (filter.layer === "" || layerName(row) === filter.layer) &&
      (filter.stage === "" || row.stage === filter.stage) &&
      (filter.dtype === "" || row.reference_dtype === filter.dtype || row.candidate_dtype === filter.dtype) &&
      words.every((word) => searchable(row).includes(word)),
  );
}

export function layerName(row: RowLine): string {
  return row.layer === null ? NO_LAYER : String(row.layer);
}

const texts = new WeakMap<RowLine, string>();

function searchable(row: RowLine): string {
  let text = texts.get(row);
  if (text === undefined) {
    text = [row.key, row.candidate_name, row.op, row.role, row.stage, row.component, row.cause, row.origin, row.recipe]
      .filter((part) => part !== null && part !== undefined)
      .join(" ")
      .toLowerCase();
    texts.set(row, text);
  }
  return text;
}
