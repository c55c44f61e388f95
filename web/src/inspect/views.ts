/** The views of a tensor, and what each needs to make sense. */
import { told, type Shortcut } from "../keys.svelte";
import { isShared } from "../shared/offline_mode";
import type { Layout } from "../api/types";

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

/** The keys that the views hear while they have the focus; they are listed under `?`. */
export const KEYS: readonly Shortcut[] = [
  told("In the values", "ArrowUp ArrowDown ArrowLeft ArrowRight", "From cell to cell"),
  told("In a heat map", "ArrowUp ArrowDown ArrowLeft ArrowRight", "Move the crosshair, with Shift by ten"),
  told("In a heat map", "+ -", "Zoom"),
  told("In a heat map", "0", "Show all"),
  told("In a heat map", " ", "Set the sliders to the cell"),
  told("In a heat map", "Enter", "Show the values"),
];
