import { count, shape } from "../../format";
import { brief } from "./numbers";
import type { RowLine } from "./types";

/** A row of the table as texts: drawing it again for another row is to exchange them. */
export interface Cells {
  /** What of the key the group's head says already; it is left out where it is empty. */
  readonly prefix: string;
  /** The rest of the key in two: where there is no room the first gives way, so that a name is cut in its middle. */
  readonly start: string;
  readonly end: string;
  /** The candidate's own name, where it has another. */
  readonly other: string | null;
  readonly title: string;
  readonly op: string | null;
  readonly recipe: string | null;
  /** How much was compared, where it was not all. */
  readonly part: string | null;
  readonly shapes: string;
  readonly dtypes: string;
  readonly elements: string;
  readonly maxAbs: string;
  readonly relL2: string;
  readonly oneMinusCosine: string;
  readonly mismatched: string;
  readonly of: string;
  readonly origin: string | null;
  readonly cause: string | null;
}

/** The end of a name that is never cut; shorter names have no start. */
const KEPT = 20;

/** Cuts a name before a dot near its end, so that both parts can be read. */
function halves(name: string): readonly [string, string] {
  if (name.length <= KEPT) return ["", name];
  const from = name.length - KEPT;
  const dot = name.slice(from).search(/[._:/]/);
  const at = dot >= 0 && dot < KEPT / 2 ? from + dot : from;
  return [name.slice(0, at), name.slice(at)];
}

export function cellsOf(row: RowLine, groupPrefix = ""): Cells {
  const prefix = row.key.startsWith(groupPrefix) ? groupPrefix : "";
  const [start, end] = halves(row.key.slice(prefix.length));
  const other = row.candidate_name !== null && row.candidate_name !== row.key && row.reference_shape !== null ? row.candidate_name : null;
  const counted = row.mismatched !== null && row.elements !== null;
  return {
    prefix,
    start,
    end,
    other,
    title: other === null ? row.key : `${row.key}\ncandidate: ${other}`,
    op: row.op,
    recipe: row.recipe,
    part: row.coverage !== null && row.coverage < 1 ? `${brief(100 * row.coverage)} %` : null,
    shapes: unlike(row.reference_shape && shape(row.reference_shape), row.candidate_shape && shape(row.candidate_shape)),
    dtypes: unlike(row.reference_dtype, row.candidate_dtype),
    elements: count(row.elements),
    maxAbs: brief(row.max_abs),
    relL2: brief(row.rel_l2),
    oneMinusCosine: brief(row.one_minus_cosine),
    mismatched: counted ? count(row.mismatched) : "",
    of: counted ? `\u00a0/ ${count(row.elements)}` : "",
    origin: row.origin,
    cause: row.cause,
  };
}

/** Both where they differ, one where they do not or only one is there. */
function unlike(reference: string | null, candidate: string | null): string {
  if (reference === null || candidate === null || reference === candidate) return reference ?? candidate ?? "";
  return `${reference} → ${candidate}`;
}
