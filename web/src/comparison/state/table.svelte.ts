import { router } from "../../router.svelte";
import { COLLAPSED, EVERYTHING, EXPANDED, type Filter, filtered, type Folding, fromQuery, type GroupBy, grouped, groupTitles, isActive, type Item, listed, rowId, type Sort, sorted, toQuery, type ViewQuery, withGroup } from "../model/table";
import type { RowLine } from "../../api/types";

/** The lines on screen: what is filtered, how it is grouped and sorted, what is open, and where the focus is. */
export class Table {
  opened = $state.raw<ReadonlySet<number>>(new Set());
  readonly view: ViewQuery = $derived(fromQuery(router.query));
  readonly rows: readonly RowLine[] = $derived.by(() => this.#source());
  readonly #titles = $derived(groupTitles(this.rows, this.view.group));
  readonly shown: readonly RowLine[] = $derived(sorted(filtered(this.rows, this.view.filter), this.view.sort));
  readonly groups = $derived(grouped(this.shown, this.view.group, this.#titles));
  readonly items: readonly Item[] = $derived(listed(this.groups, this.folding, this.opened));
  readonly places: ReadonlyMap<string, number> = $derived(new Map(this.items.map((item, place) => [item.id, place])));

  active = $state<string | null>(null);
  /** Set to ask that the active line be scrolled to and focused. */
  wanted = $state.raw<{ readonly id: string; readonly focus: boolean } | null>(null);
  #folding = $state.raw<Folding>(COLLAPSED);
  #whileFiltered = $state.raw<Folding>(EXPANDED);
  readonly #source: () => readonly RowLine[];

  constructor(source: () => readonly RowLine[]) {
    this.#source = source;
  }

  /** A filter opens all groups, so that what it finds is seen; without it they are as they were. */
  get folding(): Folding {
    return isActive(this.view.filter) ? this.#whileFiltered : this.#folding;
  }

  filter(change: Partial<Filter>): void {
    const filter = { ...this.view.filter, ...change };
    if (!isActive(this.view.filter)) this.#whileFiltered = EXPANDED;
    this.#write({ ...this.view, filter });
  }

  sort(sort: Sort): void {
    this.#write({ ...this.view, sort });
  }

  group(group: GroupBy): void {
    this.#write({ ...this.view, group });
  }

  expandAll(): void {
    this.#fold(EXPANDED);
  }

  collapseAll(): void {
    this.#fold(COLLAPSED);
    this.opened = new Set();
  }

  toggleGroup(id: string, expanded: boolean): void {
    this.#fold(withGroup(this.folding, id, expanded));
  }

  setOpen(index: number, open: boolean): void {
    const opened = new Set(this.opened);
    if (open) opened.add(index);
    else opened.delete(index);
    this.opened = opened;
  }

  /** Brings a row into sight, whatever filter or group hides it. */
  reveal(index: number, { open = false, focus = true }: { open?: boolean; focus?: boolean } = {}): void {
    if (!this.rows.some((row) => row.index === index)) return;
    if (!this.shown.some((row) => row.index === index)) this.filter(EVERYTHING);
    this.#fold(withGroup(this.folding, this.#titles.get(index) ?? "", true));
    if (open) this.setOpen(index, true);
    this.go(rowId(index), focus);
  }

  go(id: string, focus = true): void {
    this.active = id;
    this.wanted = { id, focus };
  }

  /** Moves the focus by some lines; from nowhere, to the first. */
  move(by: number): void {
    const from = this.active === null ? -1 : (this.places.get(this.active) ?? -1);
    const to = from < 0 ? 0 : Math.min(this.items.length - 1, Math.max(0, from + by));
    const item = this.items[to];
    if (item !== undefined) this.go(item.id);
  }

  /** The next row, in the order shown, that does not match; null if there is none further on. */
  beyond(direction: 1 | -1): RowLine | null {
    const order = this.groups.flatMap((group) => group.rows);
    const here = order.findIndex((row) => rowId(row.index) === this.active);
    const found = (row: RowLine): boolean => row.status !== "match" && row.status !== "alone";
    const from = here < 0 && direction < 0 ? order.length : here;
    const rest = direction > 0 ? order.slice(from + 1) : order.slice(0, from).reverse();
    return rest.find(found) ?? null;
  }

  #fold(folding: Folding): void {
    if (isActive(this.view.filter)) this.#whileFiltered = folding;
    else this.#folding = folding;
  }

  #write(view: ViewQuery): void {
    const query = toQuery(view, router.query);
    const names = new Set([...query.keys(), ...router.query.keys()]);
    router.setQuery(Object.fromEntries([...names].map((name) => [name, query.get(name)])));
  }
}
