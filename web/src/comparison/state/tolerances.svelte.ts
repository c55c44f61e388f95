import { sentence, wasAborted } from "../../api/client";
import { router } from "../../router.svelte";
import { provider } from "../../api/provider";
import { DEFAULT_RULE, fromRuleQuery, judgeRequest, passingRules, ruleOf, type RuleText, sameRule, toRuleQuery } from "../model/tolerance";
import type { Head, Judged, RowLine } from "../../api/types";

const SETTLED = 150;

/** Hands a text to the browser as a file to keep. */
function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Tolerances tried on the page. `judged` is null while those of the comparison hold. */
export class Tolerances {
  text = $state.raw<RuleText>(DEFAULT_RULE);
  base = $state.raw<RuleText>(DEFAULT_RULE);
  judged = $state.raw<Judged | null>(null);
  /** Found to let every pair match; null until looked for. */
  passing = $state.raw<readonly RuleText[] | null>(null);
  problem = $state<string | null>(null);
  readonly changed: boolean = $derived.by(() => !sameRule(this.text, this.base));

  readonly #id: string;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort: AbortController | null = null;

  constructor(id: string) {
    this.#id = id;
  }

  /** Begins with what a new result was judged by, or what the address says. */
  start(head: Head): void {
    this.base = ruleOf(head.settings);
    this.text = fromRuleQuery(router.query, this.base);
    this.passing = null;
    if (this.changed) void this.#ask();
    else this.judged = null;
  }

  change(change: Partial<RuleText>): void {
    this.text = { ...this.text, ...change };
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(), SETTLED);
  }

  reset(): void {
    clearTimeout(this.#timer);
    this.text = this.base;
    void this.#ask();
  }

  /** Looks once for what would let every pair match, by trying it. */
  async findPassing(rows: readonly RowLine[]): Promise<void> {
    if (this.passing !== null) return;
    const found: RuleText[] = [];
    try {
      const usual = judgeRequest({ ...DEFAULT_RULE, equalNan: this.base.equalNan });
      if (typeof usual === "string") return;
      for (const rule of passingRules(await provider.judge(this.#id, usual), rows, this.base.equalNan)) {
        const request = judgeRequest(rule);
        if (typeof request !== "string" && (await provider.judge(this.#id, request)).summary.mismatch === 0) found.push(rule);
      }
      this.passing = found;
    } catch (error) {
      this.problem = sentence(error);
    }
  }

  async save(): Promise<void> {
    const request = judgeRequest(this.text);
    try {
      if (typeof request === "string") this.problem = request;
      else download("tolerances.toml", await provider.tolerancesFile(this.#id, request));
    } catch (error) {
      this.problem = sentence(error);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#abort?.abort();
  }

  /** Judges now; an answer that a later question has overtaken is dropped. */
  async #ask(): Promise<void> {
    this.#abort?.abort();
    router.setQuery(toRuleQuery(this.text, this.base));
    const request = judgeRequest(this.text);
    this.problem = typeof request === "string" ? request : null;
    if (!this.changed) this.judged = null;
    if (typeof request === "string" || !this.changed) return;
    const abort = new AbortController();
    this.#abort = abort;
    try {
      this.judged = await provider.judge(this.#id, request, abort.signal);
    } catch (error) {
      if (!wasAborted(error) && !abort.signal.aborted) this.problem = sentence(error);
    }
  }
}
