/** Bytes that were squeezed with gzip and written as base64. */
export async function unpacked(text: string): Promise<ArrayBuffer> {
  const squeezed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([squeezed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

export async function unpackedJson<T>(text: string): Promise<T> {
  return JSON.parse(new TextDecoder().decode(await unpacked(text))) as T;
}
