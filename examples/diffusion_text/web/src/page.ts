/** What both pages do with the document. */

import { droppedFiles, type FileSource } from "./model";
import "./style.css";

export function element<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as T;
}

export function field(form: HTMLFormElement, name: string): HTMLInputElement {
  return form.elements.namedItem(name) as HTMLInputElement;
}

export function showProblem(sentence: string): void {
  const place = element("problem");
  place.textContent = sentence;
  place.hidden = sentence === "";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Show text with the characters that differ from the text before marked. */
export function showText(place: HTMLElement, text: string, before: string): void {
  const parts: (string | HTMLElement)[] = [];
  for (let start = 0; start < text.length; ) {
    const differs = text[start] !== before[start];
    let end = start + 1;
    while (end < text.length && (text[end] !== before[end]) === differs) end++;
    const part = text.slice(start, end);
    if (differs && before) {
      const mark = document.createElement("mark");
      mark.textContent = part;
      parts.push(mark);
    } else {
      parts.push(part);
    }
    start = end;
  }
  place.replaceChildren(...parts);
}

/** Take files dropped on the page, or chosen in the file field. */
export function acceptFiles(input: HTMLInputElement, load: (source: FileSource) => void): void {
  const root = document.documentElement;
  // the same files again, written anew, are a change too
  input.addEventListener("click", () => (input.value = ""));
  input.addEventListener("change", () => input.files?.length && load(droppedFiles(input.files)));
  addEventListener("dragover", (event) => {
    event.preventDefault();
    root.classList.add("drop");
  });
  addEventListener("dragleave", () => root.classList.remove("drop"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    root.classList.remove("drop");
    if (event.dataTransfer?.files.length) load(droppedFiles(event.dataTransfer.files));
  });
}

/** Let the browser paint before the next step. */
export function nextFrame(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
