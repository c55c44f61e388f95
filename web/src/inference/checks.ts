/** What can be wrong before a model runs: stale files, metadata, vocabulary, inputs. */
import { digest } from "../start/sha256";
import type { Model } from "./api";
import type { LoadedFile } from "./capture";

export interface Check {
  readonly name: string;
  readonly passed: boolean;
  readonly text: string;
}

/** Compares what the browser holds with what the server finds on disk now; `model` must be asked for just before. */
export async function checkModel(model: Model, files: readonly LoadedFile[]): Promise<Check[]> {
  return [
    { name: "Files", passed: files.length === model.files.length, text: `${files.length} of ${model.files.length} files loaded` },
    await checkDigests(model, files),
    { name: "Metadata", passed: model.problems.length === 0, text: model.problems.join("; ") || `opset ${model.opset}, ${model.producer || "no producer"}` },
    checkVocabulary(model, files),
    checkInputs(model),
  ];
}

async function checkDigests(model: Model, files: readonly LoadedFile[]): Promise<Check> {
  const stale: string[] = [];
  for (const file of model.files) {
    const loaded = files.find(({ name }) => name === file.name);
    if (loaded && (await digest(new Blob([loaded.data]))) !== file.digest) stale.push(file.name);
  }
  const text = stale.length ? `the browser holds another ${stale.join(", ")} than the disk, from before it was changed or from a stale cache: press Load Model again` : "the browser holds the files that are on disk";
  return { name: "Digests", passed: stale.length === 0, text };
}

function checkVocabulary(model: Model, files: readonly LoadedFile[]): Check {
  const name = "Vocabulary";
  const { vocabulary } = model;
  if (!vocabulary) return { name, passed: true, text: "no vocab.json or tokenizer.json beside the model" };
  const file = files.find((loaded) => loaded.name === vocabulary.file);
  const entries = file ? entriesOf(file.data) : [];
  const wrong = vocabulary.first.findIndex((entry, index) => entries[index] !== entry);
  if (entries.length !== vocabulary.size) return { name, passed: false, text: `${entries.length} entries in the browser, ${vocabulary.size} on disk` };
  if (wrong >= 0) return { name, passed: false, text: `entry ${wrong} is ${JSON.stringify(entries[wrong])} in the browser and ${JSON.stringify(vocabulary.first[wrong])} on disk` };
  return { name, passed: true, text: `${vocabulary.size} entries, the first ten are equal` };
}

/** Compares what was computed: a model may leave the last axis of its logits open. */
export function checkLogits(model: Model, shapes: ReadonlyMap<string, readonly number[]>): Check | null {
  const { vocabulary } = model;
  const name = [...shapes.keys()].find((output) => output.includes("logit")) ?? (shapes.size === 1 ? [...shapes.keys()][0] : undefined);
  const size = name === undefined ? undefined : shapes.get(name)?.at(-1);
  if (!vocabulary || name === undefined || size === undefined) return null;
  const passed = size === vocabulary.size;
  return { name: "Logits", passed, text: `${name} has ${size} entries along its last axis, ${passed ? "as" : "but"} ${vocabulary.file} has ${vocabulary.size}` };
}

export function entriesOf(data: ArrayBuffer): string[] {
  try {
    let held: unknown = JSON.parse(new TextDecoder().decode(data));
    if (isRecord(held) && isRecord(held["model"])) held = held["model"]["vocab"];
    if (isRecord(held)) return Object.entries(held).sort(([, one], [, other]) => Number(one) - Number(other)).map(([entry]) => entry);
    return Array.isArray(held) ? held.map((entry: unknown) => String(Array.isArray(entry) ? entry[0] : entry)) : [];
  } catch {
    return [];
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function checkInputs(model: Model): Check {
  const missing = model.inputs.filter(({ name }) => !model.given.some((given) => given.name === name));
  const text = missing.length ? `not given: ${missing.map(describe).join(", ")}` : model.given.map(({ name, dtype, shape }) => `${name} ${dtype} [${shape.join(", ")}]`).join(", ") || "the model takes none";
  return { name: "Inputs", passed: missing.length === 0, text };
}

/** `ids int64 [batch, 16]` */
export function describe({ name, dtype, axes }: Model["inputs"][number]): string {
  return `${name} ${dtype}${axes ? ` [${axes.map((axis) => axis.size ?? axis.name).join(", ")}]` : ""}`;
}
