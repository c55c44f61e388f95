import { STATUSES } from "../../status";
import { EVERYTHING } from "./filtering";
import type { Filter } from "./filtering";
import { GROUPINGS } from "./grouping";
import type { GroupBy } from "./grouping";
import { IN_ORDER, SORTS } from "./sorting";
import type { Sort } from "./sorting";

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
