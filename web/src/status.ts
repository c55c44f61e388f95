/** The words of a verdict. Each has a glyph and a name, so that colour is never the only sign. */
import type { RowLine } from "./api/types";

export type Status = RowLine["status"];
export type Tone = Exclude<Status, "alone" | "rewritten" | "inconclusive"> | "neutral";

export interface Sign {
  glyph: string;
  label: string;
  tone: Tone;
  means: string;
}

export const STATUS: Record<Status, Sign> = {
  match: { glyph: "=", label: "match", tone: "match", means: "within the tolerance" },
  mismatch: { glyph: "≠", label: "mismatch", tone: "mismatch", means: "values, or shapes that no layout relates" },
  missing: { glyph: "−", label: "missing", tone: "missing", means: "only in the reference" },
  extra: { glyph: "+", label: "extra", tone: "extra", means: "only in the candidate" },
  failed: { glyph: "!", label: "failed", tone: "failed", means: "could not be read or compared; the row says why" },
  inconclusive: { glyph: "?", label: "inconclusive", tone: "missing", means: "the reference is ill-conditioned there; it is no pass" },
  rewritten: { glyph: "~", label: "written differently", tone: "neutral", means: "one side's own way inside a module whose inputs and outputs match; it does not count" },
  alone: { glyph: "○", label: "alone", tone: "neutral", means: "looked at, with nothing to compare it to" },
};

/** What a pair of two traces can be. */
export const STATUSES = ["match", "mismatch", "missing", "extra", "failed", "inconclusive", "rewritten"] as const satisfies readonly Status[];

export const VERDICT: Record<"match" | "mismatch" | "not_compared", Sign> = {
  match: STATUS.match,
  mismatch: STATUS.mismatch,
  not_compared: { glyph: "∅", label: "not compared", tone: "neutral", means: "no pair could be measured, which is never a pass" },
};

export const STATE: Record<"queued" | "running" | "done" | "failed" | "cancelled", Sign> = {
  queued: { glyph: "…", label: "waiting", tone: "neutral", means: "waits for the one before it" },
  running: { glyph: "▸", label: "running", tone: "neutral", means: "being compared" },
  done: { glyph: "·", label: "done", tone: "neutral", means: "finished" },
  failed: { glyph: "!", label: "failed", tone: "failed", means: "stopped with an error" },
  cancelled: { glyph: "×", label: "cancelled", tone: "neutral", means: "stopped by you" },
};
