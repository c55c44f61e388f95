import { sameRule } from "./judging";
import type { RuleText } from "./judging";

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
