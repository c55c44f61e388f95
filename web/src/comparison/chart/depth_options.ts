import type uPlot from "uplot";
import { metric } from "../../format";
import { colourOf } from "../../theme.svelte";
import { type DepthPoint, type DepthScale, layerStarts, onScale } from "../model/charts";

export interface Pick {
  readonly hover: (place: number | null) => void;
  readonly choose: (place: number) => void;
}

/** In units of the page's text, so that a chart on a large screen is as readable as the rest. */
const AXIS_WIDTH = 4.15;
const AXIS_HEIGHT = 2.3;
const LABEL_ROOM = 3.3;
const TEXT = 0.857;
const MOST_DRAWN_CROSSES = 4000;

/** Integers are compared exactly: where they agree they have no place on a scale of errors. */
function isExact(point: DepthPoint): boolean {
  return point.allowed === 0;
}

/** The bottom of the scale is a series of its own: the band lies between it and what is allowed. */
export function chartData(points: readonly DepthPoint[], scale: DepthScale): uPlot.AlignedData {
  return [
    points.map((_, place) => place),
    points.map((point) => (isExact(point) ? null : onScale(point.allowed, scale))),
    points.map(() => scale.bottom),
    points.map((point) => (isExact(point) && point.error === 0 ? null : onScale(point.error, scale))),
  ];
}

export function chartOptions(
  points: readonly DepthPoint[],
  scale: DepthScale,
  first: number,
  width: number,
  height: number,
  rem: number,
  pick: Pick,
): uPlot.Options {
  const colours = { ink: colourOf("--ink-faint"), line: colourOf("--line"), band: colourOf("--match-wash"), limit: colourOf("--match") };
  const starts = layerStarts(points, Math.floor(width / (LABEL_ROOM * rem)));
  const labels = new Map(starts.map((start) => [start.place, start.label]));
  const font = `${TEXT * rem}px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { font, stroke: colours.ink, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line, width: 1 } };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 12, 0, 0],
    scales: { x: { time: false, range: () => [-0.5, points.length - 0.5] }, y: { distr: 3, range: () => [scale.bottom, scale.top] } },
    axes: [
      { ...axis, size: AXIS_HEIGHT * rem, splits: () => starts.map((start) => start.place), values: (_, places) => places.map((place) => `L${labels.get(place) ?? ""}`) },
      { ...axis, size: AXIS_WIDTH * rem, filter: (_, values) => values, splits: () => decades(scale), values: (_, values) => values.map((value) => powerOf(value, scale, points)) },
    ],
    series: [
      {},
      { stroke: colours.limit, width: 1, points: { show: false }, spanGaps: true },
      { stroke: "transparent", points: { show: false } },
      { stroke: colourOf("--reference"), width: 1.5, spanGaps: true, points: { show: points.length < 120, size: 4, fill: colourOf("--reference") } },
    ],
    bands: [{ series: [1, 2], fill: colours.band }],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 8 } },
    hooks: {
      draw: [(chart) => drawn(chart, points, scale, first)],
      setCursor: [(chart) => pick.hover(chart.cursor.idx ?? null)],
      ready: [(chart) => chart.over.addEventListener("click", () => chart.cursor.idx != null && pick.choose(chart.cursor.idx))],
    },
  };
}

/** Every mismatch has a cross, the first divergence a line: shape says it as well as colour. */
function drawn(chart: uPlot, points: readonly DepthPoint[], scale: DepthScale, first: number): void {
  const { ctx, bbox } = chart;
  const pixel = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colourOf("--mismatch");
  ctx.lineWidth = 1.25 * pixel;
  if (first >= 0) {
    const x = chart.valToPos(first, "x", true);
    ctx.setLineDash([4 * pixel, 3 * pixel]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  const wrong = points.flatMap((point, place) => (point.status === "mismatch" ? [place] : []));
  const every = Math.ceil(wrong.length / MOST_DRAWN_CROSSES);
  const arm = 3 * pixel;
  ctx.beginPath();
  for (let number = 0; number < wrong.length; number += every) {
    const place = wrong[number]!;
    const x = chart.valToPos(place, "x", true);
    const y = chart.valToPos(onScale(points[place]!.error, scale) ?? scale.bottom, "y", true);
    ctx.moveTo(x - arm, y - arm);
    ctx.lineTo(x + arm, y + arm);
    ctx.moveTo(x - arm, y + arm);
    ctx.lineTo(x + arm, y - arm);
  }
  ctx.stroke();
  ctx.restore();
}

function decades(scale: DepthScale): number[] {
  const low = Math.round(Math.log10(scale.bottom));
  const high = Math.round(Math.log10(scale.top));
  const step = Math.max(1, Math.ceil((high - low) / 6));
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, number) => 10 ** (low + number * step));
}

/** The lowest line stands for zero where an error is zero. */
function powerOf(value: number, scale: DepthScale, points: readonly DepthPoint[]): string {
  const bottom = value <= scale.bottom * 1.01;
  return bottom && points.some((point) => point.error === 0 && !isExact(point)) ? "0" : metric(value, 1);
}
