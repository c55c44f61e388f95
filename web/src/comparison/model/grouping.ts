import type { Status } from "../../status";
import type { RowLine } from "./types";

/** Worst first. */
const SEVERITY: readonly Status[] = ["mismatch", "failed", "inconclusive", "missing", "extra", "rewritten", "match", "alone"];

export type GroupBy = "layer" | "name" | "verdict" | "none";

export const GROUPINGS: readonly { readonly id: GroupBy; readonly label: string }[] = [
  { id: "layer", label: "layer" },
  { id: "name", label: "name" },
  { id: "verdict", label: "verdict" },
  { id: "none", label: "nothing" },
];

export interface Group {
  readonly id: string;
  readonly title: string;
  /** What the keys of its rows begin with, as far as it is said in the group's head and left out of the rows. */
  readonly prefix: string;
  readonly rows: readonly RowLine[];
  readonly counts: Readonly<Record<Status, number>>;
}

/** Names the group of every row, by its index. */
export type Titles = ReadonlyMap<number, string>;

/** Groups in the order of their first row, verdicts from bad to good; ungrouped rows are one group without a title. */
export function grouped(rows: readonly RowLine[], by: GroupBy, titles: Titles): readonly Group[] {
  const members = new Map<string, RowLine[]>();
  for (const row of rows) {
    const title = titles.get(row.index) ?? "";
    const known = members.get(title);
    if (known === undefined) members.set(title, [row]);
    else known.push(row);
  }
  const groups = [...members].map(([title, found]) => group(title, found, by === "layer" ? layerPrefix(found) : ""));
  return by === "verdict" ? groups.sort((a, b) => severity(a.rows[0]) - severity(b.rows[0])) : groups;
}

/** Call with all rows, in the order of execution: what a row's group is called must not depend on the filter. */
export function groupTitles(rows: readonly RowLine[], by: GroupBy): Titles {
  switch (by) {
    case "layer":
      return layerTitles(rows);
    case "name":
      return titled(rows, (row) => row.stage ?? row.name.replaceAll(/\d+/g, "N"));
    case "verdict":
      return titled(rows, (row) => capital(row.status));
    case "none":
      return titled(rows, () => "");
  }
}

/** Embeddings come before the layers and heads after them; steps and components are told apart where there are several. */
function layerTitles(rows: readonly RowLine[]): Titles {
  const manySteps = new Set(rows.map((row) => row.step)).size > 1;
  const isParam = (row: RowLine): boolean => row.role === "param" || row.role === "buffer";
  const outside = new Map([
    ...outsideLayers(rows.filter((row) => !isParam(row))),
    ...outsideLayers(rows.filter(isParam)),
  ]);
  const parts = (row: RowLine): readonly string[] => [
    ...(manySteps ? [`Step ${row.step}`] : []),
    ...(row.component ? [row.component] : []),
    row.layer === null ? (outside.get(row.index) ?? "") : `Layer ${row.layer}`,
  ];
  return titled(rows, (row) => parts(row).join(" · "));
}

/** Weights are recorded all at once, before or after the run, so that they are placed among themselves. */
function outsideLayers(rows: readonly RowLine[]): Titles {
  const first = rows.findIndex((row) => row.layer !== null);
  const last = rows.findLastIndex((row) => row.layer !== null);
  const titles = new Map<number, string>();
  rows.forEach((row, place) => {
    const where = place < first ? "Before the layers" : place > last ? "After the layers" : "Between the layers";
    titles.set(row.index, first < 0 ? "All tensors" : where);
  });
  return titles;
}

function titled(rows: readonly RowLine[], title: (row: RowLine) => string): Titles {
  return new Map(rows.map((row) => [row.index, title(row)]));
}

/** The first key of a layer up to the layer's number: `encoder.layer.4.`. */
function layerPrefix(rows: readonly RowLine[]): string {
  for (const { key, layer } of rows) {
    for (const found of layer === null ? [] : key.matchAll(/(?<=^|[._/])\d+[._/]/g)) {
      if (Number.parseInt(found[0], 10) === layer) return key.slice(0, found.index + found[0].length);
    }
  }
  return "";
}

function group(title: string, rows: readonly RowLine[], prefix: string): Group {
  const counts: Record<Status, number> = { match: 0, mismatch: 0, missing: 0, extra: 0, failed: 0, rewritten: 0, inconclusive: 0, alone: 0 };
  for (const row of rows) counts[row.status] += 1;
  return { id: title, title, prefix, rows, counts };
}

function severity(row: RowLine | undefined): number {
  return row === undefined ? SEVERITY.length : SEVERITY.indexOf(row.status);
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
