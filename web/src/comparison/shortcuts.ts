import { told, type Shortcut } from "../keys.svelte";
import type { ComparisonPage } from "./state/page.svelte";

export interface Places {
  readonly filter: () => void;
  readonly tolerances: () => void;
  readonly pairing: () => void;
  readonly legend: () => void;
  readonly escape: () => void;
}

/** The keys of the comparison page; they are listed under `?`. */
export function shortcuts(page: ComparisonPage, places: Places): readonly Shortcut[] {
  const { table } = page;
  const key = (name: string, does: string, run: () => void, whileTyping = false): Shortcut => ({ key: name, does, group: "Comparison", run, whileTyping });
  const beyond = (direction: 1 | -1): void => {
    const row = table.beyond(direction);
    if (row !== null) table.reveal(row.index);
  };
  const toggle = (): void => {
    const item = table.items[table.places.get(table.active ?? "") ?? -1];
    if (item !== undefined) page.toggle(item);
  };
  return [
    key("j", "Next line", () => table.move(1)),
    key("k", "Line before", () => table.move(-1)),
    key("o", "Open or close the line (also Enter)", toggle),
    key("n", "Next row that does not match", () => beyond(1)),
    key("p", "Row before that does not match", () => beyond(-1)),
    key("f", "First divergence", () => page.outcome?.first && page.show(page.outcome.first.pair)),
    key("/", "Filter by text", places.filter),
    key("e", "Expand All", () => table.expandAll()),
    key("c", "Collapse All", () => table.collapseAll()),
    key("t", "Tolerances", places.tolerances),
    key("r", "Pairing by hand", places.pairing),
    key("l", "Legend", places.legend),
    key("Escape", "Back to the table", places.escape, true),
    told("In the table", "ArrowUp ArrowDown", "Line before, next line"),
    told("In the table", "ArrowRight", "Open"),
    told("In the table", "ArrowLeft", "Close, or go to the group"),
    told("In the table", "PageUp PageDown", "Twelve lines at a time"),
    told("In the table", "Home End", "First line, last line"),
    told("In the chart", "ArrowLeft ArrowRight", "From point to point"),
    told("In the chart", "PageUp PageDown", "Ten points at a time"),
    told("In the chart", "Enter", "Go to the row"),
  ];
}
