/** Who answers: the server, or in a shared file what is embedded there. */
export type Transport = (path: string, init: RequestInit) => Promise<Response>;

let answering: Transport = (path, init) => fetch(path, init);

export function answerWith(own: Transport): void {
  answering = own;
}

export const send: Transport = (path, init) => answering(path, init);

export class ApiError extends Error {
  readonly status: number;
  /** The body the server sent with the error, for callers that read more than the sentence. */
  readonly body: unknown;

  constructor(sentence: string, status: number, body: unknown = null) {
    super(sentence);
    this.name = "ApiError";
    this.status = status;
    this.body = body;
  }

  /** True where no answer came at all: the server is stopped or the connection broke. */
  get dropped(): boolean {
    return this.status === 0;
  }
}

export interface Asked {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** How often a dropped connection is tried again; by default three times for what only reads. */
  retries?: number;
}

export const DROPPED = "The firstdiff server does not answer. It may have been stopped: start `firstdiff serve` again, nothing finished is lost.";

export async function ask(path: string, asked: Asked = {}): Promise<Response> {
  const retries = asked.retries ?? ((asked.method ?? "GET") === "GET" ? 3 : 0);
  for (let attempt = 0; ; attempt++) {
    try {
      return await once(path, asked);
    } catch (error) {
      if (!(error instanceof ApiError) || !error.dropped || attempt >= retries) throw error;
      await pause(waitBefore(attempt), asked.signal);
    }
  }
}

export async function askJson<T>(path: string, asked: Asked = {}): Promise<T> {
  const response = await ask(path, asked);
  return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
}

async function once(path: string, { method = "GET", json, body, headers = {}, signal }: Asked): Promise<Response> {
  let response: Response;
  try {
    response = await send(path, {
      method,
      headers: json === undefined ? headers : { ...headers, "Content-Type": "application/json" },
      body: json === undefined ? (body ?? null) : JSON.stringify(json),
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(DROPPED, 0);
  }
  if (response.ok) return response;
  throw errorOf(await response.text(), response.status);
}

/** The error that an answer's text holds. */
export function errorOf(text: string, status: number): ApiError {
  const body = parsed(text);
  const explained = typeof body === "object" && body !== null && "error" in body && typeof body.error === "string";
  return new ApiError(explained ? String(body.error) : `The server answered with status ${status} and no explanation.`, status, body);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function waitBefore(attempt: number): number {
  return Math.min(4000, 250 * 2 ** attempt);
}

/** Waits; an abort ends the wait with the abort's reason. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

export function wasAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** What to show for anything that was thrown: the sentence itself. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A PUT that tells how much of its body is on the way: `fetch` cannot. */
export interface Piece {
  body: Blob;
  headers: Record<string, string>;
  signal?: AbortSignal | undefined;
  sent?: ((bytes: number) => void) | undefined;
}

export function put<T>(path: string, { body, headers, signal, sent }: Piece): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const abort = (): void => request.abort();
    request.open("PUT", path);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => sent?.(event.loaded);
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText) as T);
      else reject(errorOf(request.responseText, request.status));
    };
    request.onerror = () => reject(new ApiError(DROPPED, 0));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    request.onloadend = () => signal?.removeEventListener("abort", abort);
    if (signal?.aborted) {
      request.onabort(new ProgressEvent("abort"));
      return;
    }
    signal?.addEventListener("abort", abort);
    request.send(body);
  });
}
