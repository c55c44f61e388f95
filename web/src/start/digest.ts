/** The sha256 of a piece of a file, as hex: by the browser where it can, by our own arithmetic where it may not. */
import { sha256 } from "./sha256";

export async function digest(piece: Blob): Promise<string> {
  const data = await piece.arrayBuffer();
  const hash = isSecureContext ? new Uint8Array(await crypto.subtle.digest("SHA-256", data)) : sha256(new Uint8Array(data));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
