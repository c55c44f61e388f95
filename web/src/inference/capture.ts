/** One run: part by part with every value exposed, then the untouched model, with and without optimisation. */
import { ApiError, sentence } from "../api/client";
import { bytes as sizeText, duration, shape as shapeText } from "../format";
import { inference, type Model, type Run, type SentTensor } from "./api";
import { InferenceError, loadRuntime, openSession, run as runSession, tensorNames, toSent, toTensor, type ExternalFile, type Tensor } from "./runtime";

export interface LoadedFile {
  readonly name: string;
  readonly data: ArrayBuffer;
}

export interface Watching {
  /** A line for the log; `verbose` ones only where that is switched on. */
  say: (line: string, verbose?: boolean) => void;
  progress: (share: number) => void;
}

export interface Finished {
  readonly run: Run;
  /** Outputs of the exposed run, to log by position. */
  readonly outputs: ReadonlyMap<string, Tensor>;
}

/** Runs to the end, or tells the server why not; the returned run says which. */
export async function captureRun(model: Model, files: readonly LoadedFile[], run: Run, watching: Watching): Promise<Finished> {
  const closing = (): void => void inference.close(model.id, run.id);
  addEventListener("pagehide", closing);
  const unwatch = inference.watch(model.id, run.id);
  try {
    return await new Capture(model, files, run, watching).go();
  } catch (error) {
    if (error instanceof ApiError && error.dropped) throw error;
    const own = error instanceof InferenceError || error instanceof ApiError;
    return { run: await inference.fail(model.id, run.id, sentence(error), own), outputs: new Map() };
  } finally {
    unwatch();
    removeEventListener("pagehide", closing);
  }
}

class Capture {
  readonly #model: Model;
  readonly #files: readonly LoadedFile[];
  readonly #run: Run;
  readonly #watching: Watching;

  constructor(model: Model, files: readonly LoadedFile[], run: Run, watching: Watching) {
    this.#model = model;
    this.#files = files;
    this.#run = run;
    this.#watching = watching;
  }

  async go(): Promise<Finished> {
    const { provider, optimize } = this.#run;
    const ort = await loadRuntime(provider);
    this.#watching.say(`onnxruntime-web ${ort.env.versions.web ?? ""} on ${provider}, optimisation ${optimize ? "on" : "off"}`);
    const inputs = new Map<string, Tensor>();
    for (const [index, { name, dtype, shape }] of this.#model.given.entries()) {
      inputs.set(name, toTensor(ort, dtype, shape, await inference.input(this.#model.id, index)));
    }
    const outputs = await this.#exposed(ort, inputs);
    const optimized = await this.#untouched(ort, inputs, true);
    const plain = await this.#untouched(ort, inputs, false);
    const run = await inference.finish(this.#model.id, this.#run.id, optimized, plain);
    this.#watching.progress(1);
    return { run, outputs };
  }

  async #exposed(ort: Awaited<ReturnType<typeof loadRuntime>>, inputs: ReadonlyMap<string, Tensor>): Promise<Map<string, Tensor>> {
    const { id } = this.#model;
    const wanted = new Set(this.#model.outputs.map(({ name }) => name));
    const outputs = new Map<string, Tensor>();
    let held = new Map(inputs);
    for (let number = 1; ; number++) {
      const part = await inference.part(id, this.#run.id);
      if (!part) return outputs;
      const begun = performance.now();
      const session = await openSession(ort, part.model, this.#run.provider, this.#run.optimize);
      const feeds = Object.fromEntries(part.feeds.map((name) => [name, held.get(name)!]));
      const names = new Set(tensorNames(session));
      const found = await runSession(session, feeds, part.values.filter((name) => names.has(name)));
      await session.release();
      const kinds: Record<string, string> = {};
      const sent: SentTensor[] = [];
      for (const name of part.values) {
        const tensor = found.get(name);
        const bytes = tensor && toSent(name, tensor);
        if (bytes) sent.push(bytes);
        else kinds[name] = tensor ? tensor.type : names.has(name) ? "what optimising leaves of it" : "a sequence";
        if (tensor && wanted.has(name)) outputs.set(name, tensor);
      }
      const total = sent.reduce((sum, { bytes }) => sum + bytes.length, 0);
      await inference.putPart(id, this.#run.id, sent, kinds);
      const seconds = (performance.now() - begun) / 1000;
      this.#watching.say(`part ${number}: ${sent.length} values, ${sizeText(total)}, ${duration(seconds)}`);
      for (const { name, dtype, shape } of sent) this.#watching.say(`  ${name}: ${dtype} ${shapeText(shape)}`, true);
      this.#watching.progress(0.8 * part.done);
      // what this part neither read nor gave may be for a later one
      const [kept, seen] = [new Set(part.kept), new Set([...part.feeds, ...part.values])];
      held = new Map([...held, ...found].filter(([name]) => kept.has(name) || inputs.has(name) || !seen.has(name)));
    }
  }

  /** Outputs of the files as they are: exposing values changes what the runtime fuses, and can hide a bug. */
  async #untouched(ort: Awaited<ReturnType<typeof loadRuntime>>, inputs: ReadonlyMap<string, Tensor>, optimize: boolean): Promise<SentTensor[]> {
    const [model, ...others] = this.#files;
    if (!model) throw new InferenceError("The model is not loaded: press Load Model first.");
    const external: ExternalFile[] = others.filter(({ name }) => !name.endsWith(".json")).map(({ name, data }) => ({ path: name, data: new Uint8Array(data) }));
    const begun = performance.now();
    const session = await openSession(ort, new Uint8Array(model.data), this.#run.provider, optimize, external);
    const found = await runSession(session, Object.fromEntries(inputs), tensorNames(session));
    await session.release();
    this.#watching.say(`untouched model, optimisation ${optimize ? "on" : "off"}: ${duration((performance.now() - begun) / 1000)}`, true);
    return [...found].map(([name, tensor]) => toSent(name, tensor)).filter((tensor) => tensor !== null);
  }
}
