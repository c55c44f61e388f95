/** What is on screen as a PNG. */
import { toasts } from "../toasts.svelte";
import { colourOf } from "../theme.svelte";

export interface Pictured {
  title: string;
  canvas: HTMLCanvasElement | undefined;
}

const GAP = 16;
const TITLE = 28;

/** Puts canvases side by side under their titles and hands the picture to the browser. */
export function savePictures(pictured: readonly Pictured[], name: string): void {
  const there = pictured.filter((one): one is Pictured & { canvas: HTMLCanvasElement } => Boolean(one.canvas?.width));
  if (!there.length) {
    toasts.say("There is nothing on screen to save yet.");
    return;
  }
  const sheet = document.createElement("canvas");
  sheet.width = there.reduce((sum, { canvas }) => sum + canvas.width + GAP, GAP);
  sheet.height = Math.max(...there.map(({ canvas }) => canvas.height)) + TITLE + 2 * GAP;
  const context = sheet.getContext("2d");
  if (!context) return;
  context.fillStyle = colourOf("--surface");
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.fillStyle = colourOf("--ink");
  context.font = "600 16px sans-serif";
  let left = GAP;
  for (const { title, canvas } of there) {
    context.fillText(title, left, GAP + 14);
    context.drawImage(canvas, left, GAP + TITLE);
    left += canvas.width + GAP;
  }
  sheet.toBlob((blob) => blob && saveBlob(blob, name), "image/png");
}

export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export interface TableCell {
  lines: string[];
  background: string;
  ink: string;
  border: string;
}

/** A table of coloured cells, drawn as it stands on the page. */
export function saveTable(cells: readonly (readonly TableCell[])[], name: string): void {
  const wide = 92;
  const high = 14 + 15 * Math.max(1, ...cells.flat().map((cell) => cell.lines.length));
  const sheet = document.createElement("canvas");
  sheet.width = Math.max(1, ...cells.map((line) => line.length)) * wide + GAP * 2;
  sheet.height = cells.length * high + GAP * 2;
  const context = sheet.getContext("2d");
  if (!context) return;
  context.fillStyle = colourOf("--surface");
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.font = "12px monospace";
  context.textAlign = "right";
  cells.forEach((line, row) =>
    line.forEach((cell, column) => {
      const [left, top] = [GAP + column * wide, GAP + row * high];
      context.fillStyle = cell.background;
      context.fillRect(left + 2, top + 2, wide - 4, high - 4);
      context.strokeStyle = cell.border;
      context.lineWidth = 2;
      context.strokeRect(left + 2, top + 2, wide - 4, high - 4);
      context.fillStyle = cell.ink;
      cell.lines.forEach((text, place) => context.fillText(text, left + wide - 8, top + 18 + 15 * place));
    }),
  );
  sheet.toBlob((blob) => blob && saveBlob(blob, name), "image/png");
}
