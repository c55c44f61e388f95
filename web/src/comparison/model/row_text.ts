import { asNumber, count, counted, metric, NOTHING, type Num, percent, shape } from "../../format";
import { differingPart, halves } from "../../names";
import type { Metrics, Note, Pair, Required, RowLine, Summary, Tolerance, Verdict } from "../../api/types";

export type { Num };

/** A number of the JSON, or null where there is none: NaN stays apart from nothing. */
export function toNumber(value: Num | null | undefined): number | null {
  return value === null || value === undefined ? null : asNumber(value);
}

/** For the table: three digits. */
export function brief(value: Num | null | undefined): string {
  return metric(value, 3);
}

/** For the opened row: six digits, whole numbers with separators. */
export function precise(value: Num | null | undefined): string {
  const whole = typeof value === "number" && Number.isInteger(value) && Math.abs(value) < 1e15;
  return whole && value !== 0 ? count(value) : metric(value, 6);
}

/** What was allowed, and by which rule. */
export function allowed(tolerance: Tolerance): string {
  if (tolerance.rule === "exact") {
    return `equal values (${tolerance.source === "default" ? "integers" : tolerance.source} are compared exactly)`;
  }
  const atol = precise(tolerance.atol);
  if (tolerance.rule === "floor") {
    return `${atol} (${precise(tolerance.k)} times the recorded floor of ${precise(tolerance.floor)})`;
  }
  const text = `${atol} + ${precise(tolerance.rtol)} × |reference|`;
  if (tolerance.rule === "default") {
    const counts = `${text} (${precise(tolerance.k)} × eps × (std + |reference|))`;
    return `healthy noise, by the form of the difference; elements count as mismatched beyond ${counts}`;
  }
  return `${text} (${tolerance.source})`;
}

export function wouldMatch(required: Required): string {
  const ways = (["atol", "rtol"] as const).flatMap((name) => {
    const value = required[name];
    return value === null ? [] : [`${name} ${precise(value)}`];
  });
  return ways.length > 0 ? `Would match with ${ways.join(" or ")}` : "No tolerance would make it match";
}

export function mismatchedOf(metrics: Metrics): string {
  return `${count(metrics.mismatched)} of ${count(metrics.elements)} (${percent(metrics.elements ? metrics.mismatched / metrics.elements : 0)})`;
}

/** A value as it is in the tensor; a complex one comes as its two parts. */
export function exact(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (Array.isArray(value)) {
    const [real, imaginary] = value.map(exact);
    return `(${real}${imaginary?.startsWith("-") ? "" : "+"}${imaginary}j)`;
  }
  return typeof value === "boolean" ? (value ? "True" : "False") : String(value);
}

/** How sure something is, in the words of the reports: `confidence 0.98`. */
export function sureness(confidence: number): string {
  return `confidence ${Number(confidence.toPrecision(2))}`;
}

/** The note on a row that has no cause: none of those tested fits, or there was no time to look for one. */
export function unexplained(key: string, notes: readonly Note[]): string | null {
  return notes.find((note) => note.key === key && (note.code === "no_cause" || note.code === "not_searched"))?.text ?? null;
}

export function nonFinite(metrics: Metrics): string | null {
  const { nan_reference, nan_candidate, inf_reference, inf_candidate } = metrics;
  if (nan_reference + nan_candidate + inf_reference + inf_candidate === 0) return null;
  return (
    `${count(nan_reference)} NaN and ${count(inf_reference)} Inf in the reference, ` +
    `${count(nan_candidate)} NaN and ${count(inf_candidate)} Inf in the candidate`
  );
}

export function leftOut(metrics: Metrics): string {
  return metrics.zero_reference > 0 ? `${counted(metrics.zero_reference, "zero")} in the reference left out` : "";
}

/** How far beyond its limit: `31 × what is allowed`. */
export function excess(ratio: number | null): string {
  if (ratio === null) return "not measured";
  if (Number.isNaN(ratio)) return "not a number";
  return `${brief(ratio)} × what is allowed`;
}

/** How an operation does on its own inputs. */
export function aloneWords(isolated: NonNullable<Pair["isolated"]>): string {
  const { status, residual, limit, reason, record_next } = isolated;
  const eps = residual === null ? "" : `, ${precise(residual)} eps of its type off; up to ${precise(limit)} is rounding`;
  return `${status}${reason ? `: ${reason}` : eps}${record_next ? `; to know more, ${record_next}` : ""}`;
}

/** How much of the reference was compared; what is not all of it never reads as 100 %. */
export function coverageWords(coverage: number): string {
  return coverage >= 1 ? "all compared" : `${brief(Math.min(99.9, 100 * coverage))} % compared`;
}

/** What there is to say where no row is the first divergence. */
export function outcomeWords(verdict: Verdict, summary: Summary): string {
  if (verdict === "not_compared") {
    return summary.failed > 0 ? "Nothing was compared: no pair of tensors could be read." : "Nothing was compared: no tensor of one side was paired with one of the other.";
  }
  if (verdict === "match") return "Every tensor that was compared matches.";
  const compared = summary.match + summary.mismatch;
  if (summary.mismatch > 0) return `${count(summary.mismatch)} of ${counted(compared, "pair")} differ.`;
  return "No pair differs, but tensors are missing, extra, inconclusive or unreadable.";
}

/** A row of the table as texts: drawing it again for another row is to exchange them. */
export interface Cells {
  /** What of the key the group's head says already; it is left out where it is empty. */
  readonly prefix: string;
  /** The rest of the key in two: where there is no room the first gives way, so that a name is cut in its middle. */
  readonly start: string;
  readonly end: string;
  /** What is other about the candidate's name, where it has another. */
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

export function cellsOf(row: RowLine, groupPrefix = ""): Cells {
  const prefix = row.key.startsWith(groupPrefix) ? groupPrefix : "";
  const [start, end] = halves(row.key.slice(prefix.length));
  const other = row.candidate_name !== null && row.candidate_name !== row.key && row.reference_shape !== null ? row.candidate_name : null;
  const counted = row.mismatched !== null && row.elements !== null;
  return {
    prefix,
    start,
    end,
    other: other === null ? null : differingPart(other, row.key),
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

export interface MetricLine {
  readonly id: string;
  readonly label: string;
  readonly means: string;
  readonly text: (metrics: Metrics) => string;
}

/** Every metric of a pair, with what it says in a few words. d is candidate minus reference, r the reference. */
export const METRICS: readonly MetricLine[] = [
  { id: "mismatched", label: "mismatched", means: "elements outside the tolerance", text: mismatchedOf },
  { id: "max_abs", label: "max abs", means: "the largest |d|", text: (m) => precise(m.max_abs) },
  { id: "mean_abs", label: "mean abs", means: "mean of |d|", text: (m) => precise(m.mean_abs) },
  { id: "max_rel", label: "max rel", means: "the largest |d| / |r|", text: (m) => withNote(precise(m.max_rel), leftOut(m)) },
  { id: "mean_rel", label: "mean rel", means: "mean of |d| / |r|", text: (m) => precise(m.mean_rel) },
  { id: "rel_l2", label: "rel L2", means: "norm of d / norm of r", text: (m) => precise(m.rel_l2) },
  { id: "one_minus_cosine", label: "1 − cosine", means: "0: same direction", text: (m) => precise(m.one_minus_cosine) },
  { id: "cosine", label: "cosine", means: "1: same direction", text: (m) => (m.cosine === null ? NOTHING : String(m.cosine)) },
  { id: "mse", label: "MSE", means: "mean of d²", text: (m) => precise(m.mse) },
  { id: "rmse", label: "RMSE", means: "root of the MSE", text: (m) => precise(m.rmse) },
  { id: "nmse", label: "NMSE", means: "MSE / variance of r", text: (m) => precise(m.nmse) },
  { id: "sqnr_db", label: "SQNR", means: "signal to error, in dB", text: (m) => (m.sqnr_db === null ? NOTHING : `${precise(m.sqnr_db)} dB`) },
  { id: "max_ulp", label: "max ULP", means: "largest |d| in steps of the type", text: (m) => precise(m.max_ulp) },
  { id: "elements", label: "elements", means: "compared", text: (m) => count(m.elements) },
];

function withNote(text: string, note: string): string {
  return note === "" ? text : `${text} (${note})`;
}

/** How a row's worst difference stands to what is allowed, as a bar: the middle is just allowed. */
export interface Spark {
  /** Shares of the bar's width, from 0 to 1. */
  readonly begin: number;
  readonly end: number;
  readonly beyond: boolean;
}

const DECADES = 4;

/** Each half of the bar is four powers of ten; what lies further out is drawn at its end. */
export function spark(ratio: number | null): Spark | null {
  if (ratio === null) return null;
  if (Number.isNaN(ratio)) return { begin: 0.5, end: 1, beyond: true };
  const decades = ratio <= 0 ? -DECADES : Math.log10(ratio);
  const place = 0.5 + Math.min(DECADES, Math.max(-DECADES, decades)) / (2 * DECADES);
  return ratio > 1 ? { begin: 0.5, end: Math.max(place, 0.53), beyond: true } : { begin: 0, end: Math.max(place, 0.01), beyond: false };
}
