/** The options as one types them, and what they mean. */
import type { Options } from "../api/types";
import { isRecord } from "./session_storage";

export interface OptionsForm {
  atol: string;
  rtol: string;
  tolerances: string;
  layerOffset: string;
  acceptLayout: string;
  effort: string;
  equalNan: boolean;
  allowMissing: boolean;
  allowExtra: boolean;
  allowPartial: boolean;
  strictFunctions: boolean;
  control: boolean;
  strictLayout: boolean;
  isolate: boolean;
}

export const NO_OPTIONS: Readonly<OptionsForm> = {
  atol: "",
  rtol: "",
  tolerances: "",
  layerOffset: "",
  acceptLayout: "",
  effort: "",
  equalNan: false,
  allowMissing: false,
  allowExtra: false,
  allowPartial: false,
  strictFunctions: false,
  control: false,
  strictLayout: false,
  isolate: false,
};

/** Reads the form; throws one sentence about the first field that makes no sense. */
export function optionsOf(form: OptionsForm): Options {
  return {
    atol: toleranceOf("absolute", form.atol),
    rtol: toleranceOf("relative", form.rtol),
    tolerances: form.tolerances.trim() || null,
    layer_offset: layersOf(form.layerOffset),
    accept_layout: form.acceptLayout.split(/[\s,]+/).filter(Boolean),
    effort: effortOf(form.effort),
    equal_nan: form.equalNan,
    allow_missing: form.allowMissing,
    allow_extra: form.allowExtra,
    allow_partial: form.allowPartial,
    strict_functions: form.strictFunctions,
    control: form.control,
    layout: form.strictLayout ? "strict" : "auto",
    isolate: form.isolate,
  };
}

function toleranceOf(name: string, text: string): number | null {
  if (!text.trim()) return null;
  const value = Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new Error(`The ${name} tolerance is “${text}”: a number such as 1e-4, 0 or greater, was expected.`);
}

function layersOf(text: string): number | null {
  if (!text.trim()) return null;
  const value = Number(text);
  if (Number.isInteger(value)) return value;
  throw new Error(`The layer offset is “${text}”: a whole number such as 1 or -1 was expected.`);
}

function effortOf(text: string): number | "full" | null {
  const word = text.trim();
  if (!word) return null;
  if (word.toLowerCase() === "full") return "full";
  const value = Number(word);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new Error(`The effort is “${text}”: seconds such as 10, or “full”, were expected.`);
}

/** In words, what differs from the defaults: shown while the section is closed. */
export function changedOptions(form: OptionsForm): string[] {
  const said: [boolean, string][] = [
    [form.atol.trim() !== "", `atol ${form.atol}`],
    [form.rtol.trim() !== "", `rtol ${form.rtol}`],
    [form.tolerances.trim() !== "", "own tolerance rules"],
    [form.layerOffset.trim() !== "", `layer offset ${form.layerOffset}`],
    [form.acceptLayout.trim() !== "", `layouts accepted: ${form.acceptLayout.trim()}`],
    [form.effort.trim() !== "", `effort ${form.effort.trim()}`],
    [form.equalNan, "NaN equals NaN"],
    [form.allowMissing, "missing allowed"],
    [form.allowExtra, "extra allowed"],
    [form.allowPartial, "parts allowed"],
    [form.strictFunctions, "functions counted"],
    [form.control, "third trace is a control"],
    [form.strictLayout, "strict layout"],
    [form.isolate, "operations alone"],
  ];
  return said.filter(([changed]) => changed).map(([, words]) => words);
}

export function isOptionsForm(value: unknown): value is OptionsForm {
  return isRecord(value) && Object.entries(NO_OPTIONS).every(([key, normal]) => typeof value[key] === typeof normal);
}
