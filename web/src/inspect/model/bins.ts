/** Histograms of several sides over one axis. */
import type { Histogram } from "../api";

/** Bars for a chart: the middles of the bins, which all share, then the counts of each side. */
export function barsOf(histograms: readonly Histogram[]): [number[], ...number[][]] | null {
  const edges = histograms.find((one) => one.counts.length)?.edges;
  if (!edges) return null;
  const middles = edges.slice(1).map((edge, bin) => (edge + (edges[bin] ?? edge)) / 2);
  return [middles, ...histograms.map((one) => middles.map((_, bin) => one.counts[bin] ?? 0))];
}
