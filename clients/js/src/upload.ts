/** Send a trace to `firstdiff serve`, in pieces of which each is proved by its digest. */

import { FirstdiffError } from "./dtypes.js";
import { sha256 } from "./sha256.js";

const PIECE = 16 << 20;

/**
 * name: what the server calls the file
 * token: where the server wants one
 * reference: the upload to compare this trace with; without one the trace is shown alone
 */
export interface PostOptions {
  readonly name?: string;
  readonly token?: string;
  readonly reference?: string;
}

/** What the server made of a trace: `upload` names it as a reference for others, `address` shows the comparison. */
export interface Posted {
  readonly upload: string;
  readonly comparison: string;
  readonly address: string;
}

/** Upload an archive, and start the comparison that shows it. */
export async function upload(archive: Blob, server: string, options: PostOptions = {}): Promise<Posted> {
  const root = server.replace(/\/+$/, "");
  const ask = (method: string, path: string, body: BodyInit, headers: Record<string, string>) =>
    request(root, path, {
      method,
      body,
      headers: { ...headers, ...(options.token ? { Authorization: `Bearer ${options.token}` } : {}) },
    });
  const json = { "Content-Type": "application/json" };
  const files = [{ name: options.name ?? "run.trace.zip", size: archive.size }];
  const begun = (await ask("POST", "/api/uploads", JSON.stringify({ files }), json)) as { id: string };
  for (let offset = 0; offset < archive.size; offset += PIECE) {
    const piece = new Uint8Array(await archive.slice(offset, offset + PIECE).arrayBuffer());
    const headers = { "Content-Type": "application/octet-stream", "X-Digest": await sha256(piece) };
    await ask("PUT", `/api/uploads/${begun.id}/files/0?offset=${offset}`, piece, headers);
  }
  const own = { upload: begun.id };
  const sides = options.reference
    ? { kind: "pair", reference: { upload: options.reference }, candidate: own }
    : { kind: "look", reference: own };
  const entry = (await ask("POST", "/api/comparisons", JSON.stringify(sides), json)) as { id: string };
  return { upload: begun.id, comparison: entry.id, address: `${root}/c/${entry.id}` };
}

async function request(root: string, path: string, init: RequestInit): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(root + path, init);
  } catch (error) {
    throw new FirstdiffError(
      `${root} does not answer, or does not let this page in (${error instanceof Error ? error.message : error}); ` +
        `start it with firstdiff serve --allow-origin ${globalThis.location?.origin ?? "ORIGIN"}`,
    );
  }
  const text = await response.text();
  if (!response.ok) throw new FirstdiffError(`${root} refused the trace: ${sentence(text) ?? response.statusText}`);
  return JSON.parse(text);
}

function sentence(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { error?: string }).error;
  } catch {
    return undefined;
  }
}
