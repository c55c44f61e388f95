/** debug.html: run the model and the sampler stage by stage, beside what Python computed. */

import { Rng, ZipRecorder } from "firstdiff";
import { checkDraws, checkLogits, checkSchedule, checkStep, range, show, type Check } from "./checks";
import { distribution, eachPosition, largestAt, stagesOf } from "./describe";
import { diagnose, differences, largestError } from "./diagnosis";
import { FAULTS, withFaults, type Fault } from "./faults";
import { filesAt, loadModel, type FileSource, type Model } from "./model";
import { acceptFiles, element, field, messageOf, nextFrame, showProblem, showText } from "./page";
import { checkSizes, loadInferenceReference, loadReference, loadWords, type InferenceReference, type Reference } from "./reference";
import { decode, Sampler, STAGES, type Shape, type Stages, type Step } from "./sampler";
import { judge } from "./verdict";

type Tone = "good" | "bad" | "doubt" | "";

const TOLERANCE = 1e-4;
// where Python's values are not there: what English has, less a good deal
const USUAL_QUALITY = { real_words: 0.2, common_pairs: 0.4 };
const TESTS = ["inference", "step", "generation"];
const options = element<HTMLFormElement>("options");
const source = element<HTMLFormElement>("source");
const log = element("log");

/** A model with the planted faults, and Python's values where they are beside it. */
interface Bench {
  readonly model: Model;
  readonly vocab: readonly string[];
  readonly shape: Shape;
  readonly stages: Stages;
  readonly run: Model["run"];
  readonly reference: Reference | null;
  readonly inference: InferenceReference | null;
  readonly words: ReadonlySet<string>;
}

let files: FileSource = filesAt("model");
let bench: Bench | undefined;
let trace: ZipRecorder | undefined;
/** Whether a model was asked for: then a fault that is switched loads it again. */
let wanted = false;

const checked = (name: string): boolean => field(options, name).checked;

function write(text: string, tone: Tone = ""): void {
  const line = document.createElement("div");
  line.className = tone;
  line.textContent = text;
  log.append(line);
  log.scrollTop = log.scrollHeight;
}

function writeChecks(checks: readonly Check[]): boolean {
  for (const check of checks) write(`${check.ok ? "ok" : "FAILED"}: ${check.name} (${check.detail})`, check.ok ? "good" : "bad");
  return checks.every((check) => check.ok);
}

function setVerdict(sentence: string, tone: Tone = ""): void {
  const place = element("verdict");
  place.textContent = sentence;
  place.className = tone;
  write(sentence, tone);
}

function plantedFaults(): Fault[] {
  return FAULTS.filter((fault) => element<HTMLInputElement>(`fault-${fault.id}`).checked);
}

async function load(): Promise<void> {
  wanted = true;
  await bench?.model.release();
  bench = undefined;
  element("rows").replaceChildren();
  element("text").replaceChildren();
  const faults = plantedFaults();
  const model = await loadModel(files, faults.find((fault) => fault.modelFile)?.modelFile);
  const [reference, inference, words] = await Promise.all([loadReference(files), loadInferenceReference(files), loadWords(files)]);
  if (reference) checkSizes(reference, model.metadata);
  const change = <T>(value: T, changes: readonly (((value: T) => T) | undefined)[]): T =>
    changes.reduce((changed, apply) => apply?.(changed) ?? changed, value);
  bench = {
    model,
    vocab: change(model.vocab, faults.map((fault) => fault.vocab)),
    shape: change(model.shape, faults.map((fault) => fault.shape)),
    stages: withFaults(STAGES, faults),
    run: async (ids, sigma) => change(await model.run(ids, sigma), faults.map((fault) => fault.logits)),
    reference,
    inference,
    words,
  };
  const { layers, heads, width, block_size, vocab_size, steps } = model.metadata;
  const position = field(options, "position");
  position.max = String(block_size - 1);
  if (position.valueAsNumber >= block_size) position.valueAsNumber = block_size >> 1;
  write(`Model: ${layers} layers, ${heads} heads, width ${width}, ${block_size} characters, vocabulary of ${vocab_size}, ${steps} steps.`);
  writeChecks(model.checks);
  for (const warning of model.warnings) write(warning, "bad");
  showProblem(model.warnings.join(" "));
  if (!reference || !inference) write("Python's values are not there: run debug_python.py, and put its three files beside the model.", "doubt");
  for (const fault of faults) write(`Planted: ${fault.label}`, "doubt");
  const names = faults.length ? `, with ${faults.length} planted fault${faults.length > 1 ? "s" : ""}` : "";
  setVerdict(`Model loaded${names}.`, model.warnings.length ? "doubt" : "");
}

async function testInference({ run, shape, stages, vocab, inference }: Bench): Promise<void> {
  const random = new Rng(field(options, "seed").valueAsNumber);
  const compare = checked("compare") && inference !== null;
  const ids = compare ? Int32Array.from(inference.ids) : random.fillIntegers(new Int32Array(shape.blockSize), 0, shape.vocabSize);
  const sigma = compare ? inference.sigma : Math.sqrt(shape.sigmaMin * shape.sigmaMax);
  const sigmaInput = stages.sigmaInput(sigma);
  const logits = await run(ids, sigmaInput);
  write(`Single inference at sigma ${show(sigma)}${sigmaInput === Math.fround(sigma) ? "" : `, given to the model as ${show(sigmaInput)}`}`);
  const healthy = writeChecks(checkLogits(logits, shape.blockSize, shape.vocabSize));
  const position = field(options, "position").valueAsNumber;
  if (checked("verbose")) write(`Top ten at position ${position}: ${largestAt(logits, position, vocab, shape.vocabSize, 10)}`);
  if (checked("stats")) write(distribution("logits", logits));
  if (checked("positions")) {
    for (let at = 0; at < shape.blockSize; at++) write(`position ${at}: ${largestAt(logits, at, vocab, shape.vocabSize, 3)}`);
  }
  if (!compare) return setVerdict(healthy ? "The logits look right; Python's are not compared." : "The logits are wrong: see the log.", healthy ? "doubt" : "bad");
  const { error } = largestError(logits, inference.logits);
  const equal = error <= TOLERANCE;
  const size = Number.isFinite(error) ? `by up to ${show(error)}` : "for they are not finite";
  const compared = equal ? `The logits equal Python's: largest difference ${show(error)}.` : `The logits differ from Python's, ${size}.`;
  setVerdict(healthy ? compared : `${compared} They break rules: see the log.`, equal && healthy ? "good" : "bad");
}

async function testStep({ run, shape, stages, vocab, reference, model }: Bench): Promise<void> {
  const compare = checked("compare") && reference !== null;
  const seed = compare ? reference.seed : field(options, "seed").valueAsNumber;
  const schedule = stages.schedule(model.metadata.steps, shape.sigmaMin, shape.sigmaMax);
  const index = compare ? Math.min(reference.step.index, schedule.t.length - 1) : schedule.t.length >> 1;
  const rng = new Rng(seed);
  const noise = rng.fillIntegers(new Int32Array(shape.blockSize), 0, shape.vocabSize);
  let before: Float64Array = new Float64Array(0);
  let gumbel = before;
  for (let draw = 0; draw <= index; draw++) [before, gumbel] = [gumbel, stages.gumbel(rng, shape.blockSize * shape.vocabSize)];
  const ids = compare ? Int32Array.from(reference.step.ids) : noise;
  const step = await new Sampler(run, shape, stages).denoise(index, schedule, ids, gumbel);
  write(`Step ${index + 1}: t ${show(step.t)}, sigma ${show(step.sigma)}, delta sigma ${show(step.deltaSigma)}, ${show(100 * step.changed)} % of characters changed`);
  writeStep(step, shape, vocab);
  const checks = [...checkSchedule(schedule), ...checkStep(step, shape.vocabSize), ...(index ? [checkDraws(before, gumbel)] : [])];
  const healthy = writeChecks(checks);
  if (!compare) return setVerdict(healthy ? "The step keeps all rules; Python's is not compared." : "The step breaks rules: see the log.", healthy ? "doubt" : "bad");
  const candidate = {
    step,
    schedule,
    sigmaInput: stages.sigmaInput(step.sigma),
    vocabSize: shape.vocabSize,
    text: decode(step.sampled, vocab),
    modelWarnings: model.warnings,
  };
  const found = differences(candidate, reference, reference.trajectory[reference.step.index]!.text);
  for (const difference of checked("stop") ? found.slice(0, 1) : found) write(`differs: ${difference.tap}: ${difference.detail}`, "bad");
  const cause = diagnose(candidate, reference, found);
  if (cause) return setVerdict(`First difference at ${cause.tap}. ${cause.code}: ${cause.evidence.replace(/\.$/, "")}.`, "bad");
  setVerdict("Every stage of the step equals Python's.", "good");
}

/** Write what the toggles ask for. */
function writeStep(step: Step, shape: Shape, vocab: readonly string[]): void {
  const position = field(options, "position").valueAsNumber;
  for (const [tap, values] of stagesOf(step)) {
    if (checked("stats")) write(distribution(tap, values));
    if (checked("verbose")) write(`${tap} at position ${position}: ${largestAt(values, position, vocab, shape.vocabSize, 5)}`);
  }
  if (checked("positions")) for (const line of eachPosition(step, vocab, shape.vocabSize)) write(line);
}

async function runGeneration({ run, shape, stages, vocab, reference, words, model }: Bench): Promise<void> {
  const inModel = model.metadata.vocab_size;
  if (shape.vocabSize !== inModel) {
    throw new Error(`The sampler counts ${shape.vocabSize} characters, but the model has ${inModel}: take vocab_size and vocab.json from the model's own export.`);
  }
  const seed = field(options, "seed").valueAsNumber;
  const compare = checked("compare") && reference !== null && seed === reference.seed;
  const recorder = (trace = new ZipRecorder({ header: { seed } }));
  element("rows").replaceChildren();
  element("text").replaceChildren();
  const texts: string[] = [];
  const changed: number[] = [];
  let firstDifferent: number | undefined;
  let nonFinite: number | undefined;
  for await (const step of new Sampler(run, shape, stages).generate({ seed, steps: model.metadata.steps, recorder })) {
    if (!texts.length) texts.push(decode(step.ids, vocab));
    const text = decode(step.sampled, vocab);
    showText(element("text"), text, texts.at(-1)!);
    texts.push(text);
    changed.push(step.changed);
    if (checked("verbose")) write(`Step ${step.index + 1}: ${JSON.stringify(text)}`);
    if (checked("stats")) write(distribution(`Step ${step.index + 1}, log_score`, step.logScore));
    if (checked("positions")) for (const line of eachPosition(step, vocab, shape.vocabSize)) write(`Step ${step.index + 1}, ${line}`);
    if (range(step.logScore).infinite) nonFinite ??= step.index;
    const expected = compare ? reference.trajectory[step.index] : undefined;
    const same = expected ? sameShare(text, expected.text) : undefined;
    if (compare && firstDifferent === undefined && same !== 1) firstDifferent = step.index;
    const band = reference?.bands[step.index];
    const inBand = !band || (step.changed >= band.low && step.changed <= band.high);
    const tone = same === undefined ? (inBand ? "good" : "doubt") : same < 1 ? "bad" : "good";
    addRow(step, same === undefined ? "" : percent(same), band ? `${(100 * band.low).toFixed(1)} to ${percent(band.high)}` : "", tone);
    element("verdict").textContent = `Step ${step.index + 1} of ${model.metadata.steps + 1}`;
    await nextFrame();
    // half a generation cannot be judged
    if (firstDifferent !== undefined && checked("stop")) return setVerdict(`Stopped at step ${step.index + 1}, whose text differs from Python's.`, "bad");
  }
  const verdict = judge({ texts, changed, nonFinite }, reference?.bands ?? [], reference?.quality ?? USUAL_QUALITY, words);
  if (words.size) write(`Real words: ${percent(verdict.realWords)}, common letter pairs: ${percent(verdict.commonPairs)}.`);
  const suspect = verdict.suspect ? ` Suspect: ${verdict.suspect}.` : "";
  const compared = compare ? comparedText(firstDifferent) : checked("compare") && reference ? ` Python's values are of seed ${reference.seed}, so they are not compared.` : "";
  const tone = verdict.suspect || firstDifferent !== undefined ? "bad" : verdict.kind === "unknown" ? "doubt" : "good";
  setVerdict(`${VERDICTS[verdict.kind]}: ${verdict.sentence}.${suspect}${compared}`, tone);
}

function comparedText(firstDifferent: number | undefined): string {
  return firstDifferent === undefined ? " The text equals Python's at every step." : ` The text differs from Python's from step ${firstDifferent + 1} on.`;
}

const VERDICTS = {
  nonfinite: "Not finite",
  repeated: "One character repeated",
  loop: "A loop of words",
  unchanged: "Mostly unchanged",
  noise: "Pure noise",
  nonsense: "Changing, but nonsense",
  improving: "Improving",
  unknown: "Changing",
};

function addRow(step: Step, same: string, band: string, tone: Tone): void {
  const { min, max, infinite } = range(step.logScore);
  const logits = infinite ? `${infinite} not finite` : `${show(min)} to ${show(max)}`;
  const cells = [step.index + 1, show(step.t), show(step.sigma), show(step.deltaSigma), logits, percent(step.changed), band, same];
  const row = document.createElement("tr");
  row.className = tone;
  row.append(
    ...cells.map((cell) => {
      const data = document.createElement("td");
      data.textContent = String(cell);
      return data;
    }),
  );
  const table = element("steps");
  const atEnd = table.scrollTop + table.clientHeight >= table.scrollHeight - 2;
  element("rows").append(row);
  // whoever has scrolled up to read is left there
  if (atEnd) table.scrollTop = table.scrollHeight;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

function sameShare(text: string, expected: string): number {
  return [...expected].filter((character, index) => character === text[index]).length / Math.max(expected.length, text.length);
}

/** Run one test at a time; a failure becomes a sentence. */
async function act(action: () => Promise<void>): Promise<void> {
  const buttons = [...document.querySelectorAll("button")];
  for (const button of buttons) button.disabled = true;
  showProblem("");
  try {
    await action();
  } catch (error) {
    showProblem(messageOf(error));
    write(messageOf(error), "bad");
    setVerdict(bench ? "The test could not be completed." : "No model is loaded.", "bad");
  }
  for (const button of buttons) button.disabled = (TESTS.includes(button.id) && !bench) || (button.id === "save-trace" && !trace);
}

function saveLog(): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([Array.from(log.children, (line) => `${line.textContent}\n`).join("")], { type: "text/plain" }));
  link.download = "debug.log";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

element("faults").append(
  ...FAULTS.map((fault) => {
    const label = document.createElement("label");
    label.className = "inline";
    const box = Object.assign(document.createElement("input"), { type: "checkbox", id: `fault-${fault.id}` });
    box.addEventListener("change", () => wanted && void act(load));
    label.append(box, fault.label);
    return label;
  }),
);
source.addEventListener("submit", (event) => {
  event.preventDefault();
  files = filesAt(field(source, "address").value);
  void act(load);
});
acceptFiles(element<HTMLInputElement>("files"), (chosen) => {
  files = chosen;
  void act(load);
});
const withBench = (test: (bench: Bench) => Promise<void>) => (): void => {
  if (options.reportValidity()) void act(async () => bench && test(bench));
};
element("inference").addEventListener("click", withBench(testInference));
element("step").addEventListener("click", withBench(testStep));
element("generation").addEventListener("click", withBench(runGeneration));
element("clear").addEventListener("click", () => log.replaceChildren());
element("save").addEventListener("click", saveLog);
element("save-trace").addEventListener("click", () => trace?.download("browser.trace.zip"));
