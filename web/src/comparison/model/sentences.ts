import { count, counted, percent } from "../../format";
import { brief, precise } from "./numbers";
import type { Metrics, Note, Pair, Required, Summary, Tolerance, Verdict } from "./types";

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
  const eps = residual === null ? "" : `, ${precise(residual)} eps of its type off; ${precise(limit)} is rounding`;
  return `${status}${eps}${reason ? `; ${reason}` : ""}${record_next ? `; to know more, ${record_next}` : ""}`;
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
