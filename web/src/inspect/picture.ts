/** What is on screen as a PNG: pictures under their titles, with the keys that explain them. */
import { colourOf } from "../theme.svelte";
import { toasts } from "../toasts.svelte";
import type { Bar } from "./model/colour_scale";

export type Drawn = HTMLCanvasElement | HTMLImageElement | undefined;

export interface Key {
  label: string;
  colour: string;
}

export interface Pictured {
  title: string;
  /** One below the other, all as wide as the first. */
  drawn: readonly Drawn[];
  /** Where something is marked, as shares of the width. */
  marks?: readonly number[];
  bar?: Bar;
  keys?: readonly Key[];
}

const [GAP, LINE, BAR, MARK] = [16, 22, 12, 7];

/** Puts pictures side by side, or one below the other, and hands the sheet to the browser. */
export function savePictures(pictured: readonly Pictured[], name: string, { stacked = false } = {}): void {
  const plates = pictured.flatMap((one) => plate(one) ?? []);
  if (!plates.length) {
    toasts.say("There is nothing on screen to save yet.");
    return;
  }
  const gap = GAP * devicePixelRatio;
  const [wide, high] = [plates.map(({ width }) => width), plates.map(({ height }) => height)];
  const [width, height] = stacked ? [Math.max(...wide), along(high, gap)] : [along(wide, gap), Math.max(...high)];
  const { sheet, context } = sheetOf(width + 2 * gap, height + 2 * gap);
  let at = gap;
  for (const one of plates) {
    context.drawImage(one, stacked ? gap : at, stacked ? at : gap);
    at += (stacked ? one.height : one.width) + gap;
  }
  save(sheet, name);
}

function along(lengths: readonly number[], gap: number): number {
  return lengths.reduce((sum, length) => sum + length + gap, -gap);
}

/** One picture with what belongs to it; null where nothing is drawn yet. */
function plate({ title, drawn, marks = [], bar, keys = [] }: Pictured): HTMLCanvasElement | null {
  const there = drawn.flatMap((one) => (one && sizeOf(one)[0] > 0 ? [one] : []));
  if (!there[0]) return null;
  const scale = devicePixelRatio;
  const [width] = sizeOf(there[0]);
  const heights = there.map((one) => sizeOf(one)[1]);
  const line = LINE * scale;
  const height = line + heights.reduce((sum, one) => sum + one + 4 * scale, 0) + (bar ? BAR * scale + line : 0) + (keys.length ? line : 0);
  const { sheet, context } = sheetOf(width, height);
  context.font = `600 ${14 * scale}px sans-serif`;
  context.fillText(title, 0, 15 * scale);
  let top = line;
  there.forEach((one, place) => {
    context.drawImage(one, 0, top, width, heights[place] as number);
    if (place === 0) for (const mark of marks) point(context, mark * width, top, scale);
    top += (heights[place] as number) + 4 * scale;
  });
  context.font = `${12 * scale}px sans-serif`;
  if (bar) top = drawBar(context, bar, top, scale);
  drawKeys(context, keys, 0, top, scale);
  return sheet;
}

function drawKeys(context: CanvasRenderingContext2D, keys: readonly Key[], from: number, top: number, scale: number): void {
  let left = from;
  context.textAlign = "left";
  context.font = `${12 * scale}px sans-serif`;
  for (const { label, colour } of keys) {
    context.fillStyle = colour;
    context.fillRect(left, top + 7 * scale, 14 * scale, 8 * scale);
    context.fillStyle = colourOf("--ink");
    context.fillText(label, left + 20 * scale, top + 15 * scale);
    left += 36 * scale + context.measureText(label).width;
  }
}

/** Returns where it ends. */
function drawBar(context: CanvasRenderingContext2D, { colours, ticks }: Bar, top: number, scale: number): number {
  const { width } = context.canvas;
  const gradient = context.createLinearGradient(0, 0, width, 0);
  colours.forEach((colour, place) => gradient.addColorStop(place / Math.max(1, colours.length - 1), colour));
  context.fillStyle = gradient;
  context.fillRect(0, top, width, BAR * scale);
  context.fillStyle = colourOf("--ink");
  for (const { at, text } of ticks) context.fillText(text, at * (width - context.measureText(text).width), top + (BAR + 14) * scale);
  return top + (BAR + LINE) * scale;
}

function point(context: CanvasRenderingContext2D, at: number, top: number, scale: number): void {
  context.fillStyle = colourOf("--missing");
  context.beginPath();
  context.moveTo(at - MARK * 0.7 * scale, top);
  context.lineTo(at + MARK * 0.7 * scale, top);
  context.lineTo(at, top + MARK * 1.3 * scale);
  context.fill();
}

/** As large as on screen. */
function sizeOf(drawn: HTMLElement): readonly [number, number] {
  return [Math.round(drawn.clientWidth * devicePixelRatio), Math.round(drawn.clientHeight * devicePixelRatio)];
}

/** Paper of the page's colour, its ink ready. */
function sheetOf(width: number, height: number): { sheet: HTMLCanvasElement; context: CanvasRenderingContext2D } {
  const sheet = document.createElement("canvas");
  sheet.width = Math.round(width);
  sheet.height = Math.round(height);
  const context = sheet.getContext("2d");
  if (!context) throw new Error("This browser cannot draw pictures.");
  context.fillStyle = colourOf("--surface");
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.fillStyle = colourOf("--ink");
  context.imageSmoothingEnabled = false;
  return { sheet, context };
}

function save(sheet: HTMLCanvasElement, name: string): void {
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

/** A table of coloured cells under the headings of its columns, drawn as it stands on the page. */
export interface PicturedTable {
  columns: readonly string[];
  rows: readonly { heading: string; cells: readonly TableCell[] }[];
  keys: readonly Key[];
}

export function saveTable({ columns, rows, keys }: PicturedTable, name: string): void {
  const [wide, side] = [92, 56];
  const high = 14 + 15 * Math.max(1, ...rows.flatMap(({ cells }) => cells.map((cell) => cell.lines.length)));
  const { sheet, context } = sheetOf(side + Math.max(5, columns.length) * wide + GAP * 2, rows.length * high + 2 * LINE + GAP * 2);
  context.font = "12px monospace";
  context.textAlign = "right";
  columns.forEach((heading, column) => context.fillText(heading, GAP + side + (column + 1) * wide - 8, GAP + 14));
  rows.forEach(({ heading, cells }, row) => {
    const top = GAP + LINE + row * high;
    context.fillStyle = colourOf("--ink");
    context.fillText(heading, GAP + side - 8, top + 18);
    cells.forEach((cell, column) => {
      const left = GAP + side + column * wide;
      context.fillStyle = cell.background;
      context.fillRect(left + 2, top + 2, wide - 4, high - 4);
      context.strokeStyle = cell.border;
      context.lineWidth = 2;
      context.strokeRect(left + 2, top + 2, wide - 4, high - 4);
      context.fillStyle = cell.ink;
      cell.lines.forEach((text, place) => context.fillText(text, left + wide - 8, top + 18 + 15 * place));
    });
  });
  drawKeys(context, keys, GAP + side, GAP + LINE + rows.length * high, 1);
  save(sheet, name);
}
