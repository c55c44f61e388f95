import { count, NOTHING } from "../../format";
import { precise } from "./numbers";
import { leftOut, mismatchedOf } from "./sentences";
import type { Metrics } from "./types";

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
