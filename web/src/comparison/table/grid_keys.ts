import type { Item } from "../model/table";
import type { Table } from "../state/table.svelte";

const PAGE = 12;

/** Keys within the table, as in any tree: what stands inside an opened row keeps its own. */
export function gridKey(event: KeyboardEvent, table: Table, toggle: (item: Item) => void): void {
  const line = event.target as HTMLElement;
  if (!line.matches("[data-line]") || event.ctrlKey || event.metaKey || event.altKey) return;
  const place = table.places.get(line.id) ?? -1;
  const item = table.items[place];
  if (item === undefined) return;
  const done = moved(event.key, table) || folded(event.key, item, place, table, toggle);
  if (!done) return;
  event.preventDefault();
  event.stopPropagation();
}

function moved(key: string, table: Table): boolean {
  const steps: Readonly<Record<string, number>> = {
    ArrowDown: 1,
    ArrowUp: -1,
    PageDown: PAGE,
    PageUp: -PAGE,
    Home: -table.items.length,
    End: table.items.length,
  };
  const step = steps[key];
  if (step !== undefined) table.move(step);
  return step !== undefined;
}

function folded(key: string, item: Item, place: number, table: Table, toggle: (item: Item) => void): boolean {
  const open = item.kind === "group" ? item.expanded : item.opened;
  if (key === "Enter" || key === " ") toggle(item);
  else if (key === "ArrowRight" && !open) toggle(item);
  else if (key === "ArrowRight") table.move(1);
  else if (key === "ArrowLeft" && open) toggle(item);
  else if (key === "ArrowLeft") table.go(groupAbove(table, place).id);
  else return false;
  return true;
}

function groupAbove(table: Table, place: number): Item {
  const here = table.items[place]!;
  for (let above = place; above >= 0; above -= 1) {
    const item = table.items[above];
    if (item?.kind === "group") return item;
  }
  return here;
}
