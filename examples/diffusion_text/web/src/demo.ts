/** index.html: generate text step by step. */

import { filesAt, loadModel, type FileSource, type Model } from "./model";
import { acceptFiles, element, field, messageOf, nextFrame, showProblem, showText } from "./page";
import { decode, fixedCharacters, Sampler } from "./sampler";

const controls = element<HTMLFormElement>("controls");
const [start, pause, reset] = ["start", "pause", "reset"].map((id) => element<HTMLButtonElement>(id)) as [
  HTMLButtonElement,
  HTMLButtonElement,
  HTMLButtonElement,
];
const text = element("text");
const status = element("status");
const progress = element<HTMLProgressElement>("progress");

let model: Model | undefined;
/** The generation that may write to the page; another one, or none, ends it. */
let current: symbol | undefined;
let paused = false;
let resume: (() => void) | undefined;

function setButtons(): void {
  start.disabled = !model || current !== undefined;
  pause.disabled = current === undefined;
  reset.disabled = !model;
  pause.textContent = paused ? "Resume" : "Pause";
}

async function load(source: FileSource): Promise<void> {
  stop();
  showProblem("");
  status.textContent = "Loading the model…";
  await model?.release();
  model = undefined;
  setButtons();
  try {
    model = await loadModel(source);
    field(controls, "steps").value = String(model.metadata.steps);
    showProblem(model.warnings.join(" "));
    const { layers, width, block_size, vocab_size } = model.metadata;
    status.textContent = `Ready: ${layers} layers of width ${width}, ${block_size} characters, vocabulary of ${vocab_size}.`;
  } catch (error) {
    showProblem(messageOf(error));
    status.textContent = "No model is loaded.";
  }
  setButtons();
}

function stop(): void {
  current = undefined;
  paused = false;
  resume?.();
  setButtons();
}

async function generate(loaded: Model): Promise<void> {
  const mine = (current = Symbol("generation"));
  const { vocab, metadata } = loaded;
  showProblem("");
  setButtons();
  try {
    do {
      const fixed = fixedCharacters(field(controls, "prefix").value, "", vocab, metadata.block_size);
      const seed = field(controls, "seed").valueAsNumber;
      const steps = field(controls, "steps").valueAsNumber;
      const temperature = field(controls, "temperature").valueAsNumber;
      let before = "";
      for await (const step of new Sampler(loaded.run, loaded.shape).generate({ seed, steps, fixed, temperature })) {
        if (current !== mine) return;
        const after = decode(step.sampled, vocab);
        showText(text, after, before || decode(step.ids, vocab));
        before = after;
        progress.value = (step.index + 1) / (steps + 1);
        const changed = (100 * step.changed).toFixed(1);
        status.textContent = `Step ${step.index + 1} of ${steps + 1}, sigma ${step.sigma.toPrecision(3)}, ${changed} % of characters changed.`;
        await nextFrame();
        if (paused) await new Promise<void>((resolve) => (resume = resolve));
        if (current !== mine) return;
      }
      if (field(controls, "continuous").checked) field(controls, "seed").valueAsNumber = seed + 1;
    } while (field(controls, "continuous").checked);
    status.textContent += " Done.";
  } catch (error) {
    showProblem(messageOf(error));
  }
  if (current === mine) stop();
}

controls.addEventListener("submit", (event) => {
  event.preventDefault();
  if (model && current === undefined) void generate(model);
});
pause.addEventListener("click", () => {
  paused = !paused;
  if (!paused) resume?.();
  setButtons();
});
reset.addEventListener("click", () => {
  stop();
  text.replaceChildren();
  progress.value = 0;
  showProblem("");
  status.textContent = "Ready.";
});
element<HTMLFormElement>("other").addEventListener("submit", (event) => {
  event.preventDefault();
  void load(filesAt(field(event.target as HTMLFormElement, "address").value));
});
acceptFiles(element<HTMLInputElement>("files"), (source) => void load(source));
void load(filesAt("model"));
