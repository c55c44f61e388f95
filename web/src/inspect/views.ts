/** The views of a tensor, and what each needs to make sense. */
import { isShared } from "../shared/here";
import type { Layout } from "./api";

export type ViewName = "values" | "heat" | "distribution" | "mapping" | "depth" | "audio";

export interface View {
  name: ViewName;
  title: string;
  supports: (layout: Layout) => boolean;
}

export const VIEWS: readonly View[] = [
  { name: "values", title: "Values", supports: () => true },
  { name: "heat", title: "Heat maps", supports: (layout) => (layout.aligned ?? layout.reference ?? layout.candidate)!.shape.length > 0 },
  { name: "distribution", title: "Distribution", supports: () => true },
  { name: "mapping", title: "Manual Mapping", supports: (layout) => !isShared && layout.reference !== null && layout.candidate !== null },
  { name: "depth", title: "Along depth", supports: (layout) => layout.aligned !== null },
  { name: "audio", title: "Audio", supports: (layout) => !isShared && layout.audio },
];
