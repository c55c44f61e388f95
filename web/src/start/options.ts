/** The options of a comparison: what the form asks, and what the answers mean to the server. */
import type { Options } from "../api/types";
import { isRecord } from "./session_storage";

interface Text {
  readonly label: string;
  readonly placeholder: string;
  /** Several lines, a field of its own width. */
  readonly lines?: true;
  /** Choose one of these instead of typing: value and name. */
  readonly choices?: readonly (readonly [string, string])[];
  /** Reads what was typed, "" for nothing; throws one sentence where it makes no sense. */
  readonly read: (text: string) => unknown;
  /** Says it in a few words, while the section is closed. */
  readonly words: (text: string) => string;
}

interface Switch {
  readonly label: string;
  readonly means: string;
  readonly on: unknown;
  readonly off: unknown;
  readonly words: string;
}

/** Options that are typed or chosen, by the server's names, in the order of the form. */
export const TEXTS = {
  atol: { label: "Absolute tolerance", placeholder: "by dtype", read: (text: string) => toleranceOf("absolute", text), words: (text) => `atol ${text}` },
  rtol: { label: "Relative tolerance", placeholder: "by dtype", read: (text: string) => toleranceOf("relative", text), words: (text) => `rtol ${text}` },
  layer_offset: { label: "Layer offset", placeholder: "found", read: layersOf, words: (text) => `layer offset ${text}` },
  accept_layout: {
    label: "Accepted layouts",
    placeholder: "transpose, rope_interleave",
    read: (text: string) => text.split(/[\s,]+/).filter(Boolean),
    words: (text) => `layouts accepted: ${text}`,
  },
  effort: { label: "Effort (seconds, or full)", placeholder: "2", read: effortOf, words: (text) => `effort ${text}` },
  order: {
    label: "Order of plain files",
    placeholder: "",
    choices: [
      ["", "found"],
      ["numbered", "by number"],
      ["layer_stage", "by layer, stage"],
      ["natural", "by name"],
    ],
    read: (text: string) => (text || null) as Options["order"] & {},
    words: (text) => `order ${text}`,
  },
  tolerances: {
    label: "Tolerance rules (TOML)",
    placeholder: '[[tolerances]]\nname = "vocoder.*"\natol = 1e-4',
    lines: true,
    read: (text: string) => text || null,
    words: () => "own tolerance rules",
  },
  map: {
    label: "Pairs (a map file, TOML)",
    placeholder: '[[pair]]\nreference = "layers.0.attn"\ncandidate = "blk.0.attn"',
    lines: true,
    read: (text: string) => text || null,
    words: () => "own pairs",
  },
} as const satisfies Partial<Record<keyof Options, Text>>;

/** Options that are on or off. */
export const SWITCHES = {
  allow_missing: { label: "Allow missing", means: "tensors only in the reference do not count against a match", on: true, off: false, words: "missing allowed" },
  allow_extra: { label: "Allow extra", means: "nor do those only in the candidate", on: true, off: false, words: "extra allowed" },
  allow_partial: { label: "Allow parts", means: "nor do tensors of which one side has only a part", on: true, off: false, words: "parts allowed" },
  strict_functions: { label: "Count functions", means: "and casts that one side writes differently in a module that matches", on: true, off: false, words: "functions counted" },
  control: { label: "Third trace is a control", means: "a run known to be good at the candidate's precision: its error judges the candidate's", on: true, off: false, words: "third trace is a control" },
  layout: { label: "Strict layout", means: "nothing but the same layout can match", on: "strict", off: "auto", words: "strict layout" },
  equal_nan: { label: "NaN equals NaN", means: "where both sides have one", on: true, off: false, words: "NaN equals NaN" },
  isolate: { label: "Judge operations alone", means: "on the candidate's own inputs, all of them, however long it takes", on: true, off: false, words: "operations alone" },
  diagnose: { label: "No causes", means: "say where runs part, not why", on: false, off: true, words: "no causes" },
  engine: { label: "Measure with numpy", means: "without the compiled kernel, many times slower", on: "numpy", off: "auto", words: "numpy" },
} as const satisfies Partial<Record<keyof Options, Switch>>;

export type TextName = keyof typeof TEXTS;
export type SwitchName = keyof typeof SWITCHES;
export const TEXT_NAMES = Object.keys(TEXTS) as TextName[];
export const SWITCH_NAMES = Object.keys(SWITCHES) as SwitchName[];

export interface OptionsForm {
  texts: Record<TextName, string>;
  switches: Record<SwitchName, boolean>;
}

type Answers = { [Name in TextName]: ReturnType<(typeof TEXTS)[Name]["read"]> } & { [Name in SwitchName]: (typeof SWITCHES)[Name]["on" | "off"] };

export function noOptions(): OptionsForm {
  return {
    texts: Object.fromEntries(TEXT_NAMES.map((name) => [name, ""])) as OptionsForm["texts"],
    switches: Object.fromEntries(SWITCH_NAMES.map((name) => [name, false])) as OptionsForm["switches"],
  };
}

/** Reads the form; throws one sentence about the first field that makes no sense. An option of the server that neither table has is an error of types here. */
export function optionsOf(form: OptionsForm): Required<Options> {
  const answers: Answers = Object.fromEntries([
    ...TEXT_NAMES.map((name) => [name, TEXTS[name].read(form.texts[name].trim())]),
    ...SWITCH_NAMES.map((name) => [name, form.switches[name] ? SWITCHES[name].on : SWITCHES[name].off]),
  ]);
  return answers;
}

function toleranceOf(name: string, text: string): number | null {
  if (!text) return null;
  const value = Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new Error(`The ${name} tolerance is “${text}”: a number such as 1e-4, 0 or greater, was expected.`);
}

function layersOf(text: string): number | null {
  if (!text) return null;
  const value = Number(text);
  if (Number.isInteger(value)) return value;
  throw new Error(`The layer offset is “${text}”: a whole number such as 1 or -1 was expected.`);
}

function effortOf(text: string): number | "full" | null {
  if (!text) return null;
  if (text.toLowerCase() === "full") return "full";
  const value = Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new Error(`The effort is “${text}”: seconds such as 10, or “full”, were expected.`);
}

/** In words, what differs from the defaults: shown while the section is closed. */
export function changedOptions(form: OptionsForm): string[] {
  return [
    ...TEXT_NAMES.filter((name) => form.texts[name].trim()).map((name) => TEXTS[name].words(form.texts[name].trim())),
    ...SWITCH_NAMES.filter((name) => form.switches[name]).map((name) => SWITCHES[name].words),
  ];
}

export function isOptionsForm(value: unknown): value is OptionsForm {
  if (!isRecord(value) || !isRecord(value.texts) || !isRecord(value.switches)) return false;
  const { texts, switches } = value;
  return TEXT_NAMES.every((name) => typeof texts[name] === "string") && SWITCH_NAMES.every((name) => typeof switches[name] === "boolean");
}
