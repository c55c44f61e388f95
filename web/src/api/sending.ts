/** A PUT that tells how much of its body is on the way: `fetch` cannot. */
import { ApiError, DROPPED, errorOf } from "./client";

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
