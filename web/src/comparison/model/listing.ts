import type { Group } from "./grouping";
import type { RowLine } from "./types";

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
