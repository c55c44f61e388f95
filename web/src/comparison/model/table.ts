import { type Status, STATUSES } from "../../status";
import type { RowLine } from "../../api/types";
import { type Num, toNumber } from "./row_text";

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

/** One line of the table: the head of a group, or a pair (with what is shown under it once opened). */
export type Item =
  | { readonly kind: "group"; readonly id: string; readonly group: Group; readonly expanded: boolean }
  | { readonly kind: "row"; readonly id: string; readonly row: RowLine; readonly prefix: string; readonly opened: boolean };

/** Which groups are open: all or none, except some. */
export interface Folding {
  readonly expanded: boolean;
  readonly except: ReadonlySet<string>;
}

export const COLLAPSED: Folding = { expanded: false, except: new Set() };
export const EXPANDED: Folding = { expanded: true, except: new Set() };

export function isExpanded(folding: Folding, group: string): boolean {
  return folding.expanded !== folding.except.has(group);
}

export function withGroup(folding: Folding, group: string, expanded: boolean): Folding {
  const except = new Set(folding.except);
  if (expanded === folding.expanded) except.delete(group);
  else except.add(group);
  return { ...folding, except };
}

export function rowId(index: number): string {
  return `row-${index}`;
}

/** The table as a flat list. A group without a title has no head and is always open. */
export function listed(groups: readonly Group[], folding: Folding, opened: ReadonlySet<number>): readonly Item[] {
  const items: Item[] = [];
  for (const group of groups) {
    const expanded = group.title === "" || isExpanded(folding, group.id);
    if (group.title !== "") items.push({ kind: "group", id: `group-${group.id}`, group, expanded });
    if (!expanded) continue;
    for (const row of group.rows) {
      items.push({ kind: "row", id: rowId(row.index), row, prefix: group.prefix, opened: opened.has(row.index) });
    }
  }
  return items;
}

/** What of the page is kept in the address, beside the comparison and the row. */
export interface ViewQuery {
  readonly filter: Filter;
  readonly sort: Sort;
  readonly group: GroupBy;
}

export const PLAIN: ViewQuery = { filter: EVERYTHING, sort: IN_ORDER, group: "layer" };

/** Unknown values are left out: an old or mistyped link still shows the comparison. */
export function fromQuery(query: URLSearchParams): ViewQuery {
  const statuses = (query.get("verdict") ?? "").split(",").filter(isStatus);
  const by = query.get("sort") ?? "";
  const group = GROUPINGS.find((known) => known.id === query.get("group"));
  return {
    filter: {
      text: query.get("text") ?? "",
      statuses,
      layer: query.get("layer") ?? "",
      stage: query.get("stage") ?? "",
      dtype: query.get("dtype") ?? "",
    },
    sort: sortOf(by),
    group: group?.id ?? "layer",
  };
}

/** Puts the view into a query, leaving what belongs to others; whatever is as usual is not written. */
export function toQuery(view: ViewQuery, query: URLSearchParams): URLSearchParams {
  const result = new URLSearchParams(query);
  const sort = view.sort.by === "order" && !view.sort.descending ? "" : `${view.sort.descending ? "-" : ""}${view.sort.by}`;
  const fields: Readonly<Record<string, string>> = {
    text: view.filter.text,
    verdict: view.filter.statuses.join(","),
    layer: view.filter.layer,
    stage: view.filter.stage,
    dtype: view.filter.dtype,
    sort,
    group: view.group === "layer" ? "" : view.group,
  };
  for (const [name, value] of Object.entries(fields)) {
    if (value === "") result.delete(name);
    else result.set(name, value);
  }
  return result;
}

function sortOf(text: string): Sort {
  const by = text.replace(/^-/, "");
  return SORTS.some((key) => key.id === by) ? { by, descending: text.startsWith("-") } : IN_ORDER;
}

function isStatus(text: string): text is (typeof STATUSES)[number] {
  return (STATUSES as readonly string[]).includes(text);
}
