import { untrack } from "svelte";
import { pathOf, router } from "../../router.svelte";
import { isShared } from "../../shared/offline_mode";
import { withLayout, withoutPair, withPair } from "../model/edits";
import { outcome, type Outcome } from "../model/tolerance";
import { moved, stepTo, type Trail } from "../model/history";
import { type Item, rowId } from "../model/table";
import type { Edits, JudgedRow, RowLine } from "../../api/types";
import { Details } from "./details.svelte";
import { PairingEdits } from "./pairing.svelte";
import { Run } from "./run.svelte";
import { Table } from "./table.svelte";
import { Tolerances } from "./tolerances.svelte";

/** All that the page of one comparison knows. */
export class ComparisonPage {
  readonly id: string;
  readonly run: Run;
  readonly details: Details;
  readonly tolerances: Tolerances;
  readonly pairing: PairingEdits;
  readonly table: Table;
  #trail: Trail = [];
  #known: readonly RowLine[] = [];

  readonly outcome: Outcome | null = $derived.by(() =>
    this.run.head === null ? null : outcome(this.run.head, this.run.rows, this.tolerances.judged),
  );
  readonly #rows: ReadonlyMap<number, RowLine> = $derived(new Map((this.outcome?.rows ?? []).map((row) => [row.index, row])));
  readonly #judged: ReadonlyMap<number, JudgedRow> = $derived.by(
    () => new Map((this.tolerances.judged?.rows ?? []).map((row) => [row.index, row])),
  );
  readonly look: boolean = $derived.by(() => this.run.entry?.kind === "look");
  /** Whether other tolerances can be tried. */
  readonly judgeable: boolean = $derived.by(() => !isShared && !this.look);
  readonly editable: boolean = $derived.by(() => !isShared && this.run.entry?.kind === "pair");

  constructor(id: string) {
    this.id = id;
    this.run = new Run(id);
    this.details = new Details(id);
    this.tolerances = new Tolerances(id);
    this.pairing = new PairingEdits(id, (entry) => this.run.follow(entry));
    this.table = new Table(() => this.outcome?.rows ?? []);
  }

  row(index: number): RowLine | null {
    return this.#rows.get(index) ?? null;
  }

  judgedRow(index: number): JudgedRow | null {
    return this.#judged.get(index) ?? null;
  }

  /** A link to a row that keeps filters, sorting and tolerance. */
  address(index: number): string {
    const query = router.query.toString();
    return pathOf({ page: "comparison", id: this.id, row: index }) + (query === "" ? "" : `?${query}`);
  }

  toggle(item: Item): void {
    if (item.kind === "group") this.table.toggleGroup(item.group.id, !item.expanded);
    else if (item.opened) this.#close(item.row.index);
    else this.#open(item.row.index);
  }

  /** Opens a row and goes there, whatever hides it. */
  show(index: number): void {
    router.go({ page: "comparison", id: this.id, row: index }, { keepQuery: true });
    this.table.reveal(index, { open: true });
  }

  /** Does what the address says. */
  follow(row: number | null): void {
    untrack(() => {
      if (row === (this.#trail.at(-1) ?? null)) return;
      const step = stepTo(this.#trail, row);
      this.#trail = step.trail;
      for (const index of step.close) this.table.setOpen(index, false);
      if (step.open !== null) this.table.reveal(step.open, { open: true });
      else if (step.close[0] !== undefined) this.table.go(rowId(step.close[0]));
    });
  }

  /** After a new result: nothing that was kept of the earlier one holds. */
  renew(): void {
    untrack(() => {
      this.details.forget();
      this.#keepPlaces(moved(this.#known, this.run.rows));
      this.#known = this.run.rows;
      if (this.run.head !== null) this.tolerances.start(this.run.head);
      if (this.editable) void this.pairing.load();
    });
  }

  pair(reference: string, candidate: string): void {
    this.#edit((edits) => withPair(edits, reference, candidate));
  }

  drop(reference: string, candidate: string): void {
    this.#edit((edits) => withoutPair(edits, reference, candidate));
  }

  layout(key: string, recipe: string): void {
    this.#edit((edits) => withLayout(edits, key, recipe));
  }

  close(): void {
    this.run.close();
    this.tolerances.close();
  }

  /** What was open stays open, wherever a new result has put it, and a focus that goes with the old one is kept. */
  #keepPlaces(now: (index: number) => number | null): void {
    if (this.#known.length === 0) return;
    const following = (indices: Iterable<number>): number[] => [...indices].flatMap((index) => now(index) ?? []);
    const shown = this.#trail.at(-1);
    this.table.opened = new Set(following(this.table.opened));
    this.#trail = following(this.#trail);
    const row = this.#trail.at(-1) ?? null;
    if (shown !== undefined) router.go({ page: "comparison", id: this.id, row }, { keepQuery: true, replace: true });
    const lost = document.activeElement === document.body || document.activeElement?.closest("[role=treegrid]");
    if (lost && row !== null) this.table.go(rowId(row));
  }

  #edit(change: (edits: Edits) => Edits): void {
    void this.pairing.apply(change(this.pairing.edits));
  }

  #open(index: number): void {
    this.table.setOpen(index, true);
    this.#trail = [...this.#trail, index];
    router.go({ page: "comparison", id: this.id, row: index }, { keepQuery: true });
  }

  #close(index: number): void {
    this.table.setOpen(index, false);
    const last = this.#trail.at(-1) === index;
    this.#trail = this.#trail.filter((other) => other !== index);
    if (last) router.go({ page: "comparison", id: this.id, row: this.#trail.at(-1) ?? null }, { keepQuery: true, replace: true });
  }
}
