import { toNumber } from "./row_text";
import type { Divergence, Head, Judged, JudgeIn, RowLine, Summary, Verdict } from "../../api/types";

/** What the tolerance panel holds, as typed: numbers may be unfinished. */
export interface RuleText {
  readonly rule: JudgeIn["rule"];
  readonly k: string;
  readonly atol: string;
  readonly rtol: string;
  readonly toml: string;
  readonly equalNan: boolean;
}

export const DEFAULT_RULE: RuleText = { rule: "default", k: "", atol: "", rtol: "", toml: "", equalNan: false };

/** The request, or the sentence that says what is wrong with it. */
export function judgeRequest(text: RuleText): JudgeIn | string {
  const base: JudgeIn = { rule: text.rule, k: null, atol: null, rtol: null, toml: null, equal_nan: text.equalNan };
  switch (text.rule) {
    case "default": {
      const k = limit(text.k);
      return k === "wrong" ? "K takes a number from 0 up" : { ...base, k };
    }
    case "custom": {
      const atol = limit(text.atol);
      const rtol = limit(text.rtol);
      if (atol === "wrong") return "atol takes a number from 0 up";
      if (rtol === "wrong") return "rtol takes a number from 0 up";
      return { ...base, atol: atol ?? 0, rtol: rtol ?? 0 };
    }
    case "toml":
      return text.toml.trim() === "" ? "write a [[tolerances]] table" : { ...base, toml: text.toml };
    case "torch":
      return base;
  }
}

function limit(text: string): number | null | "wrong" {
  if (text.trim() === "") return null;
  const value = Number(text);
  return Number.isFinite(value) && value >= 0 ? value : "wrong";
}

/** What the page shows: the comparison as it was made, or as another tolerance judges it. */
export interface Outcome {
  readonly verdict: Verdict;
  readonly summary: Summary;
  readonly first: Divergence | null;
  readonly rows: readonly RowLine[];
}

export function outcome(head: Head, rows: readonly RowLine[], judged: Judged | null): Outcome {
  if (judged === null) return { verdict: head.verdict, summary: head.summary, first: head.first_divergence, rows };
  const byIndex = new Map(judged.rows.map((row) => [row.index, row]));
  const rejudged = rows.map((row) => {
    const other = byIndex.get(row.index);
    if (other === undefined) return row;
    const { status, reason, mismatched } = other;
    const origin = status === "mismatch" ? row.origin : null;
    return { ...row, status, reason, mismatched, origin, ratio: other.ratio };
  });
  return { verdict: judged.verdict, summary: judged.summary, first: judged.first_divergence, rows: rejudged };
}

/** Tolerances that may let every pair match, to be tried: what each row needs, and no less. */
export function passingRules(judged: Judged, rows: readonly RowLine[], equalNan: boolean): readonly RuleText[] {
  const measured = rows.filter((row) => row.max_abs !== null);
  const base = { ...DEFAULT_RULE, equalNan };
  const factors = judged.rows
    .filter((row) => row.tolerance?.rule === "default")
    .map((row) => (toNumber(row.tolerance?.k) ?? 0) * (toNumber(row.worst_element) ?? 0));
  const k = largest(factors);
  const atol = largest(measured.map((row) => toNumber(row.max_abs) ?? 0));
  const rtol = largest(measured.map((row) => toNumber(row.max_rel) ?? 0));
  return [
    ...(k === null ? [] : [{ ...base, k: String(roundedUp(k)) }]),
    ...(atol === null ? [] : [{ ...base, rule: "custom" as const, atol: String(roundedUp(atol)) }]),
    ...(rtol === null ? [] : [{ ...base, rule: "custom" as const, rtol: String(roundedUp(rtol)) }]),
  ];
}

/** Null where there is none that is finite. */
function largest(values: readonly number[]): number | null {
  const most = values.reduce((found, value) => Math.max(found, value), 0);
  return values.length > 0 && Number.isFinite(most) ? most : null;
}

/** Three digits are enough to type, and must not fall below what is needed. */
export function roundedUp(value: number): number {
  if (value <= 0) return 0;
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  return Number((Math.ceil(value / unit) * unit).toPrecision(3));
}

/** The rule a comparison was made with, as far as its settings say. */
export function ruleOf(settings: Readonly<Record<string, unknown>>): RuleText {
  const base = { ...DEFAULT_RULE, equalNan: settings["equal_nan"] === true };
  const named = settings["named_tolerances"];
  if (Array.isArray(named) && named.length > 0) return { ...base, rule: "toml", toml: named.map(tomlEntry).join("\n") };
  const [atol, rtol] = [settings["atol"], settings["rtol"]];
  if (typeof atol === "number" || typeof rtol === "number") {
    return { ...base, rule: "custom", atol: String(atol ?? ""), rtol: String(rtol ?? "") };
  }
  return settings["tolerances"] === "torch" ? { ...base, rule: "torch" } : base;
}

function tomlEntry(entry: Readonly<Record<string, unknown>>): string {
  const fields = ["atol", "rtol", "k"].filter((field) => typeof entry[field] === "number");
  return ["[[tolerances]]", `name = ${JSON.stringify(entry["name"])}`, ...fields.map((field) => `${field} = ${String(entry[field])}`), ""].join("\n");
}

/** Whether two texts ask for the same, whatever is left in the fields of other rules. */
export function sameRule(a: RuleText, b: RuleText): boolean {
  return JSON.stringify(judgeRequest(a)) === JSON.stringify(judgeRequest(b));
}

const RULES: readonly RuleText["rule"][] = ["default", "custom", "torch", "toml"];

/** A tolerance tried on the page, kept in the address so that a link shows the same verdicts; without one, `base`. */
export function fromRuleQuery(query: URLSearchParams, base: RuleText): RuleText {
  const rule = RULES.find((known) => known === query.get("rule"));
  if (rule === undefined) return base;
  return {
    rule,
    k: query.get("k") ?? "",
    atol: query.get("atol") ?? "",
    rtol: query.get("rtol") ?? "",
    toml: query.get("toml") ?? "",
    equalNan: query.get("equal_nan") === "1",
  };
}

export function toRuleQuery(text: RuleText, base: RuleText): Record<string, string | boolean | null> {
  if (sameRule(text, base)) return { rule: null, k: null, atol: null, rtol: null, toml: null, equal_nan: null };
  const only = (rule: RuleText["rule"], value: string): string | null => (text.rule === rule ? value : null);
  return {
    rule: text.rule,
    k: only("default", text.k),
    atol: only("custom", text.atol),
    rtol: only("custom", text.rtol),
    toml: only("toml", text.toml),
    equal_nan: text.equalNan,
  };
}
