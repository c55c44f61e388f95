/** What the charts of a distribution draw: histograms of several sides over one axis, and sides against each other. */
import type { Scattered } from "../../api/row_values";
import type { BinnedValues } from "../../api/types";

/** Bars for a chart: the middles of the bins, which all share, then the counts of each side. */
export function barsOf(histograms: readonly BinnedValues[]): [number[], ...number[][]] | null {
  const edges = histograms.find((one) => one.counts.length)?.edges;
  if (!edges) return null;
  const middles = edges.slice(1).map((edge, bin) => (edge + (edges[bin] ?? edge)) / 2);
  return [middles, ...histograms.map((one) => middles.map((_, bin) => one.counts[bin] ?? 0))];
}

/** Points for a chart, from left to right: the reference, each other side, and the reference again for the line of equals. */
export function pointsOf(scattered: Scattered | null): [number[], ...number[][]] {
  const { sides, values } = scattered ?? { sides: 2, values: new Float32Array() };
  const elements = Array.from({ length: Math.floor(values.length / sides) }, (_, place) => Array.from(values.subarray(place * sides, (place + 1) * sides)));
  const finite = elements.filter((element) => element.every(Number.isFinite)).sort((one, other) => (one[0] ?? 0) - (other[0] ?? 0));
  const column = (side: number): number[] => finite.map((element) => element[side] ?? 0);
  return [column(0), ...Array.from({ length: sides - 1 }, (_, other) => column(other + 1)), column(0)];
}
