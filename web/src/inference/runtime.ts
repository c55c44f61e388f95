/** onnxruntime-web: loaded when a model first runs, one chunk for each provider. */
import type * as Ort from "onnxruntime-web";
import type { Provider, SentTensor } from "./api";

export type Session = Ort.InferenceSession;
export type Tensor = Ort.Tensor;
export interface ExternalFile {
  readonly path: string;
  readonly data: Uint8Array;
}

/** A sentence of our own, in contrast to what the runtime throws. */
export class InferenceError extends Error {}

const UNREADABLE = /output tensor data on index (\d+)\b[^]*non-tensor/;

const LOADERS: Record<Provider, () => Promise<typeof Ort>> = {
  wasm: () => import("onnxruntime-web/wasm"),
  webgpu: () => import("onnxruntime-web/webgpu"),
};

export async function loadRuntime(provider: Provider): Promise<typeof Ort> {
  if (typeof WebAssembly === "undefined") {
    throw new InferenceError("This browser has no WebAssembly, which models run on: allow it, or use another browser.");
  }
  if (provider === "webgpu" && !(await hasWebgpu())) {
    throw new InferenceError("This browser has no WebGPU, or finds no graphics adapter for it: choose wasm, or open this page in a browser with WebGPU.");
  }
  const ort = await LOADERS[provider]();
  // one thread, so that every run adds in the same order
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "error";
  return ort;
}

export async function hasWebgpu(): Promise<boolean> {
  const gpu = (navigator as { gpu?: { requestAdapter(): Promise<unknown> } }).gpu;
  return gpu !== undefined && (await gpu.requestAdapter().catch(() => null)) !== null;
}

export async function openSession(
  ort: typeof Ort,
  model: Uint8Array,
  provider: Provider,
  optimize: boolean,
  externalData: readonly ExternalFile[] = [],
): Promise<Session> {
  return ort.InferenceSession.create(model, {
    executionProviders: [provider],
    graphOptimizationLevel: optimize ? "all" : "disabled",
    logSeverityLevel: 4,
    ...(externalData.length ? { externalData: [...externalData] } : {}),
  });
}

/** Names of outputs that are tensors: fetching a sequence throws. */
export function tensorNames(session: Session): string[] {
  const kinds = new Map(session.outputMetadata.map((value) => [value.name, value.isTensor]));
  return session.outputNames.filter((name) => kinds.get(name) !== false);
}

/** Values by name. Optimising may leave nothing of one that is exposed: the runtime then fails at it, and it is left out. */
export async function run(session: Session, feeds: Record<string, Tensor>, names: readonly string[]): Promise<Map<string, Tensor>> {
  let wanted = [...names];
  for (;;) {
    try {
      const found = await session.run(feeds, wanted);
      return new Map(wanted.map((name) => [name, found[name]!]));
    } catch (error) {
      const index = UNREADABLE.exec(String(error))?.[1];
      if (index === undefined || Number(index) >= wanted.length) throw error;
      wanted = wanted.filter((_, at) => at !== Number(index));
    }
  }
}

/** A tensor as bytes for the server; null for texts. */
export function toSent(name: string, tensor: Tensor): SentTensor | null {
  const { data } = tensor;
  if (!ArrayBuffer.isView(data)) return null;
  const view = data as unknown as Uint8Array<ArrayBuffer>;
  return { name, dtype: tensor.type, shape: tensor.dims, bytes: new Uint8Array(view.buffer, view.byteOffset, view.byteLength) };
}

type Bytes = ArrayBuffer;
const VIEWS: Record<string, (bytes: Bytes) => Ort.Tensor.DataType | unknown> = {
  float32: (bytes) => new Float32Array(bytes),
  float64: (bytes) => new Float64Array(bytes),
  int8: (bytes) => new Int8Array(bytes),
  uint8: (bytes) => new Uint8Array(bytes),
  bool: (bytes) => new Uint8Array(bytes),
  int16: (bytes) => new Int16Array(bytes),
  uint16: (bytes) => new Uint16Array(bytes),
  float16: (bytes) => ("Float16Array" in globalThis ? new (globalThis as unknown as { Float16Array: new (bytes: Bytes) => unknown }).Float16Array(bytes) : new Uint16Array(bytes)),
  int32: (bytes) => new Int32Array(bytes),
  uint32: (bytes) => new Uint32Array(bytes),
  int64: (bytes) => new BigInt64Array(bytes),
  uint64: (bytes) => new BigUint64Array(bytes),
};

export function toTensor(ort: typeof Ort, dtype: string, shape: readonly number[], bytes: ArrayBuffer): Tensor {
  const view = VIEWS[dtype];
  if (!view) throw new InferenceError(`Inputs of type ${dtype} cannot be fed in a browser: cast them to float32 in the model.`);
  return new ort.Tensor(dtype as Ort.Tensor.Type, view(bytes) as never, shape);
}
