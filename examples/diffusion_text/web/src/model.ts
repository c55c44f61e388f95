/** Load a model from its three files and run it with onnxruntime-web. */

import type { InferenceSession } from "onnxruntime-web";
import type { Check } from "./checks";
import type { LogScores, Shape } from "./sampler";

export const FILES = ["model.onnx", "vocab.json", "metadata.json"] as const;
export type FileName = (typeof FILES)[number];

/** Where the three files come from; null where there is none. */
export type FileSource = (name: string) => Promise<ArrayBuffer | null>;

export interface Metadata {
  readonly vocab_size: number;
  readonly block_size: number;
  readonly layers: number;
  readonly heads: number;
  readonly width: number;
  readonly sigma_min: number;
  readonly sigma_max: number;
  readonly steps: number;
  readonly digests: Readonly<Record<string, string>>;
}

export interface Model {
  readonly metadata: Metadata;
  readonly vocab: readonly string[];
  readonly shape: Shape;
  readonly run: LogScores;
  /** What was checked about the files; a model that fails one is not loaded. */
  readonly checks: readonly Check[];
  /** What is suspicious about the files, though the model runs. */
  readonly warnings: readonly string[];
  release(): Promise<void>;
}

/** A problem with the files or the browser, in a sentence for the page. */
export class ModelError extends Error {}

const NUMBERS = ["vocab_size", "block_size", "layers", "heads", "width", "sigma_min", "sigma_max", "steps"] as const;

export function filesAt(address: string): FileSource {
  const folder = address.endsWith("/") ? address : `${address}/`;
  return async (name) => {
    if (!URL.canParse(folder, document.baseURI)) throw new ModelError(`${address} is no address of a folder: give one such as model or https://host/model.`);
    const url = new URL(name, new URL(folder, document.baseURI));
    let response: Response;
    try {
      // asks the host whether the cached file is still the current one
      response = await fetch(url, { cache: "no-cache" });
    } catch {
      throw new ModelError(`${url} could not be fetched: is the address right, and does its host allow this page?`);
    }
    // hosts that answer every address with a page of their own
    const isPage = response.headers.get("content-type")?.startsWith("text/html") ?? false;
    return response.ok && !isPage ? response.arrayBuffer() : null;
  };
}

export function droppedFiles(files: Iterable<File>): FileSource {
  const byName = new Map([...files].map((file) => [file.name, file]));
  return async (name) => byName.get(name)?.arrayBuffer() ?? null;
}

/** Load and check a model; `modelFile` names another ONNX file beside the vocabulary. */
export async function loadModel(source: FileSource, modelFile = "model.onnx", optimize = true): Promise<Model> {
  if (typeof WebAssembly === "undefined") {
    throw new ModelError("This browser has no WebAssembly, which the model runs on: allow it, or use another browser.");
  }
  const [onnx, vocabBytes, metadataBytes] = await Promise.all([modelFile, "vocab.json", "metadata.json"].map(source));
  const missing = [modelFile, "vocab.json", "metadata.json"].filter((_, index) => ![onnx, vocabBytes, metadataBytes][index]);
  if (!onnx || !vocabBytes || !metadataBytes) {
    const isFault = missing.length === 1 && missing[0] === modelFile && modelFile !== "model.onnx";
    const written = isFault ? "writes it with --faulty" : `writes ${FILES.join(", ")}; put all three in one folder`;
    throw new ModelError(`${missing.join(" and ")} not found: export_to_onnx.py ${written}.`);
  }
  const metadata = readMetadata(metadataBytes);
  const vocab = readVocab(vocabBytes, metadata);
  const session = await openSession(onnx, modelFile, optimize);
  const signature = checkSession(session, metadata, modelFile);
  const warnings = [
    ...(await digestWarning("model.onnx", onnx, metadata.digests[modelFile] ?? metadata.digests["model.onnx"])),
    ...(await digestWarning("vocab.json", vocabBytes, metadata.digests["vocab.json"])),
  ];
  const { Tensor } = await import("onnxruntime-web/wasm");
  const run: LogScores = async (ids, sigma) => {
    const outputs = await session.run({
      ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]),
      sigma: new Tensor("float32", Float32Array.of(sigma), [1]),
    });
    return (outputs["logits"]!.data as Float32Array).slice();
  };
  const shape = {
    vocabSize: metadata.vocab_size,
    blockSize: metadata.block_size,
    sigmaMin: metadata.sigma_min,
    sigmaMax: metadata.sigma_max,
  };
  const checks = [
    { name: "inputs and output have the model's types and shapes", ok: true, detail: signature },
    { name: "the vocabulary has the model's size", ok: true, detail: `${vocab.length} characters` },
  ];
  return { metadata, vocab, shape, run, checks, warnings, release: () => session.release() };
}

function readJson(name: string, bytes: ArrayBuffer): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new ModelError(`${name} is not valid JSON: export the model again.`);
  }
}

function readMetadata(bytes: ArrayBuffer): Metadata {
  const value = readJson("metadata.json", bytes);
  const fields = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const wrong = NUMBERS.filter((name) => !(typeof fields[name] === "number" && fields[name] > 0));
  if (wrong.length) throw new ModelError(`metadata.json has no positive number for ${wrong.join(", ")}: export the model again.`);
  return { ...fields, digests: fields["digests"] ?? {} } as unknown as Metadata;
}

function readVocab(bytes: ArrayBuffer, metadata: Metadata): string[] {
  const value = readJson("vocab.json", bytes);
  if (!Array.isArray(value) || !value.every((character) => typeof character === "string")) {
    throw new ModelError("vocab.json is no list of characters: export the model again.");
  }
  if (value.length !== metadata.vocab_size) {
    throw new ModelError(
      `vocab.json has ${value.length} characters, but metadata.json says ${metadata.vocab_size}: they are of two models; export both again.`,
    );
  }
  return value;
}

async function openSession(onnx: ArrayBuffer, name: string, optimize: boolean): Promise<InferenceSession> {
  const ort = await import("onnxruntime-web/wasm");
  // more threads need headers that plain hosts do not send
  ort.env.wasm.numThreads = 1;
  try {
    return await ort.InferenceSession.create(new Uint8Array(onnx), {
      executionProviders: ["wasm"],
      graphOptimizationLevel: optimize ? "all" : "disabled",
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ModelError(`${name} could not be loaded by onnxruntime-web: ${reason}`);
  }
}

function checkSession(session: InferenceSession, metadata: Metadata, name: string): string {
  const { block_size, vocab_size } = metadata;
  const expected = [
    { name: "ids", type: "int64", shape: [1, block_size] },
    { name: "sigma", type: "float32", shape: [1] },
    { name: "logits", type: "float32", shape: [1, block_size, vocab_size] },
  ];
  const values = [...session.inputMetadata, ...session.outputMetadata];
  for (const want of expected) {
    const value = values.find((candidate) => candidate.name === want.name);
    const told = value?.isTensor ? `${value.type} [${value.shape.join(", ")}]` : "nothing";
    if (told !== `${want.type} [${want.shape.join(", ")}]`) {
      throw new ModelError(
        `${name} has ${told} for ${want.name}, but ${want.type} [${want.shape.join(", ")}] was expected by metadata.json ` +
          `(block_size ${block_size}, vocab_size ${vocab_size}): take all three files from one export.`,
      );
    }
  }
  return expected.map((want) => `${want.name} ${want.type} [${want.shape.join(", ")}]`).join(", ");
}

async function digestWarning(name: string, bytes: ArrayBuffer, expected: string | undefined): Promise<string[]> {
  // browsers compute digests on https and localhost only
  if (!expected || !globalThis.crypto?.subtle) return [];
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const digest = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (digest === expected) return [];
  return [`${name} is not the file that metadata.json was written with: an old one from the cache, or of another model. Reload without the cache, or export again.`];
}
