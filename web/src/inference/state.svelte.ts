/** The page's state: a model, its inputs, what was run, and the table of the newest run. */
import { sentence } from "../api/client";
import { provider as store } from "../api/provider";
import { asNumber, counted, metric, shape as shapeText, type Num } from "../format";
import { sendFiles } from "../start/upload";
import { inference, largest, type InputsIn, type Model, type Provider, type Run, type Statistics, type Table } from "./api";
import { captureRun, type LoadedFile } from "./capture";
import { checkLogits, checkModel, describe, entriesOf, type Check } from "./checks";
import { Log } from "./log.svelte";
import type { Tensor } from "./runtime";

/** Outputs further apart than this, in standard deviations, are another computation. */
export const SAME = 1e-3;
const POSITIONS = 512;

export class InferenceState {
  readonly log = new Log();
  model = $state<Model | null>(null);
  checks = $state<Check[]>([]);
  table = $state<Table | null>(null);
  run = $state<Run | null>(null);
  busy = $state("");
  progress = $state(0);
  error = $state<string | null>(null);
  provider = $state<Provider>("wasm");
  optimize = $state(false);
  other = $state<string | null>(null);
  #files: LoadedFile[] = [];

  /** Opens the model of a path, an address or chosen files, and loads its files into the browser. */
  load(path: string, files: readonly File[]): Promise<void> {
    return this.#work("Loading the model", async () => {
      const place = /^https?:\/\//i.test(path.trim()) ? { url: path.trim() } : { path };
      const given = files.length ? { upload: await this.#send(files) } : place;
      await this.show(await inference.open(given));
    });
  }

  async show(model: Model): Promise<void> {
    [this.model, this.table, this.run, this.other, this.checks, this.#files] = [model, null, null, null, [], []];
    for (const [index, { name }] of model.files.entries()) this.#files.push({ name, data: await inference.file(model.id, index) });
    this.log.say(`loaded ${model.name}: opset ${model.opset}, ${model.nodes} nodes, takes ${model.inputs.map(describe).join(", ") || "nothing"}`);
    for (const { name, bytes, digest } of model.files) this.log.say(`  ${name}: ${bytes} bytes, sha256 ${digest}`, true);
    for (const problem of model.problems) this.log.say(`  ${problem}`);
  }

  setInputs(wanted: InputsIn, files: readonly File[] = []): Promise<void> {
    return this.#work("Making inputs", async () => {
      const model = this.#opened();
      const sent = files.length ? { ...wanted, upload: await this.#send(files) } : wanted;
      this.model = await inference.setInputs(model.id, sent);
      [this.table, this.run, this.other] = [null, null, null];
      for (const { name, dtype, shape, statistics } of this.model.given) this.log.say(`input ${name}: ${dtype} ${shapeText(shape)}, ${words(statistics)}`);
    });
  }

  setTorch(path: string): Promise<void> {
    return this.#work("Reading the torch trace", async () => {
      this.model = await inference.torch(this.#opened().id, path);
      if (this.run?.state === "done") await this.#showTable(this.other);
    });
  }

  /** Runs Python and the browser; `prepared` is a run that the server has begun already. */
  test(prepared: string | null = null): Promise<void> {
    return this.#work("Testing", async () => {
      const { id } = this.#opened();
      [this.table, this.run, this.other] = [null, null, null];
      this.model = await inference.model(id);
      this.checks = await checkModel(this.model, this.#files);
      for (const { name, passed, text } of this.checks) this.log.say(`check ${name}: ${passed ? "ok" : "FAILED"}: ${text}`);
      const fatal = this.checks.find(({ name, passed }) => !passed && (name === "Digests" || name === "Inputs" || name === "Files"));
      if (fatal) throw new Error(`${fatal.name}: ${fatal.text}`);
      if (!prepared) await this.#python(id);
      await this.#browser(id, prepared);
    });
  }

  async #python(id: string): Promise<void> {
    this.busy = "Running in Python";
    try {
      this.model = await inference.python(id);
      const { python } = this.model;
      this.log.say(`Python's onnxruntime ${python?.version}: ${python?.tensors} tensors, its optimised outputs ${metric(largest(python?.optimized ?? []), 3)} deviations away`);
    } catch (error) {
      // the browser may still be able to
      this.model = await inference.model(id);
      this.log.say(`Python's onnxruntime: ${sentence(error)}`);
    }
  }

  async #browser(id: string, prepared: string | null): Promise<void> {
    this.busy = "Running in the browser";
    this.progress = 0;
    const begun = prepared ? await inference.run(id, prepared) : await inference.start(id, this.provider, this.optimize);
    const { run, outputs } = await captureRun(this.#opened(), this.#files, begun, {
      say: (line, verbose) => this.log.say(line, verbose),
      progress: (share) => (this.progress = share),
    });
    this.run = run;
    if (run.state === "failed") throw new Error(run.error ?? "The run failed.");
    this.#checkLogits(outputs);
    for (const line of finalWords(run)) this.log.say(line);
    for (const line of run.left_out) this.log.say(line);
    this.model = await inference.model(id);
    if (prepared) return;
    await this.#showTable(null);
    if (this.log.positions) this.#logPositions(outputs);
  }

  #checkLogits(outputs: ReadonlyMap<string, Tensor>): void {
    const shapes = new Map([...outputs].filter(([, { type }]) => type.startsWith("float")).map(([name, { dims }]) => [name, dims]));
    const check = checkLogits(this.#opened(), shapes);
    if (!check) return;
    this.checks = [...this.checks, check];
    this.log.say(`check ${check.name}: ${check.passed ? "ok" : "FAILED"}: ${check.text}`);
  }

  /** Puts another run of the model beside this one, or none. */
  showBeside(other: string | null): Promise<void> {
    return this.#work("Comparing", () => this.#showTable(other));
  }

  async #showTable(other: string | null): Promise<void> {
    if (!this.run) return;
    [this.table, this.other] = [await inference.table(this.#opened().id, this.run.id, other), other];
    if (other) return; // the log has these lines already
    const { rows, first } = this.table;
    const row = first === null ? null : rows[first];
    if (row) this.log.say(`first tensor that differs from Python's: ${row.name} (${row.op}), ${metric(row.python?.distance)} deviations`);
    else if (this.model?.python) this.log.say(agreement(this.table).replace("’", "'"));
    const apart = this.table.first_torch === null ? null : rows[this.table.first_torch];
    if (apart) this.log.say(`first tensor that differs from torch's: ${apart.name} (${apart.op}), ${metric(apart.torch?.distance)} deviations from ${apart.torch?.name}`);
    if (!this.log.statistics) return;
    for (const { name, op, statistics, python } of rows) {
      this.log.say(`${name} (${op}): ${words(statistics)}${python ? `; Python ${words(python.statistics)}, ${metric(python.distance, 3)} deviations apart` : ""}`);
    }
  }

  /** The whole comparison of Python's trace with the browser's, with causes. */
  async compare(): Promise<string | null> {
    let id: string | null = null;
    await this.#work("Comparing", async () => {
      const [reference, candidate] = [this.model?.python?.path, this.run?.path];
      if (!reference || !candidate) throw new Error("There is nothing to compare: Python could not run the model.");
      const entry = await store.compare({ kind: "pair", reference: { path: reference }, candidate: { path: candidate }, third: null, name: `${this.model?.name}: Python and browser`, options: {} });
      id = entry.id;
    });
    return id;
  }

  #logPositions(outputs: ReadonlyMap<string, Tensor>): void {
    const file = this.#files.find(({ name }) => name === this.model?.vocabulary?.file);
    const vocabulary = file ? entriesOf(file.data) : [];
    for (const [name, { data, dims }] of outputs) {
      const width = dims.at(-1) ?? 0;
      if (!(data instanceof Float32Array) || dims.length < 2 || !width) continue;
      for (let position = 0; position * width < data.length && position < POSITIONS; position++) {
        const row = data.subarray(position * width, (position + 1) * width);
        const best = row.reduce((top, value, index) => (value > (row[top] ?? -Infinity) ? index : top), 0);
        const entry = vocabulary.length === width ? ` ${JSON.stringify(vocabulary[best])}` : "";
        this.log.say(`${name} at position ${position}: largest ${metric(row[best] ?? NaN, 5)} at ${best}${entry}`);
      }
    }
  }

  async #send(files: readonly File[]): Promise<string> {
    const picked = files.map((file) => ({ name: file.name, file }));
    return sendFiles(store, picked, { signal: new AbortController().signal, tell: ({ done, total }) => (this.progress = done / total), begun: () => undefined });
  }

  #opened(): Model {
    if (!this.model) throw new Error("No model is loaded: choose an .onnx file and press Load Model.");
    return this.model;
  }

  async #work(name: string, task: () => Promise<void>): Promise<void> {
    if (this.busy) return;
    [this.busy, this.error, this.progress] = [name, null, 0];
    try {
      await task();
    } catch (error) {
      this.error = sentence(error);
      this.log.say(`ERROR: ${this.error}`);
    } finally {
      this.busy = "";
    }
  }
}

export function words({ min, max, mean, std, nan, inf }: Statistics): string {
  return `min ${metric(min)} max ${metric(max)} mean ${metric(mean)} std ${metric(std)} NaN ${nan} Inf ${inf}`;
}

/** Words for a run that Python agrees with; rounding may lie many deviations apart where sums cancel. */
export function agreement({ rows, limit }: Table): string {
  const far = rows.filter(({ python }) => python && isFar(python.distance, limit)).length;
  const all = counted(rows.length, "tensor");
  if (!far) return `${all} within ${limit} deviations of Python’s`;
  return `${all} agree with Python’s; ${far} of them ${far === 1 ? "is" : "are"} further than ${limit} deviations apart, which is rounding that grew`;
}

/** How the outputs of the untouched model compare, in words. */
export function finalWords({ optimize, optimized, plain, python }: Run): string[] {
  const told = (name: string, distances: Run["optimized"]): string =>
    `${name}: ${distances.map((one) => `${one.name} ${metric(one.distance, 3)}`).join(", ")} deviations apart, ${largest(distances) <= SAME ? "the same" : "ANOTHER RESULT"}`;
  return [
    told(`exposed, ${optimize ? "optimised" : "unoptimised"}, against untouched, unoptimised`, plain),
    told(`exposed, ${optimize ? "optimised" : "unoptimised"}, against untouched, optimised`, optimized),
    ...(python.length ? [told("untouched in the browser against Python", python)] : []),
  ];
}

export function isFar(distance: Num, limit: Num): boolean {
  return !(asNumber(distance) <= asNumber(limit));
}
