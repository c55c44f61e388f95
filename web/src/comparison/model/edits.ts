import type { Edits } from "./types";

export const NO_EDITS: Edits = { pairs: [], dropped: [], layouts: [], layer_offset: null };

export function isEdited(edits: Edits): boolean {
  return edits.pairs.length + edits.dropped.length + edits.layouts.length > 0 || edits.layer_offset !== null;
}

export function hasPair(edits: Edits, reference: string, candidate: string): boolean {
  return edits.pairs.some((pair) => pair.reference === reference && pair.candidate === candidate);
}

/** Each side belongs to one pair at most, so a new pair takes the place of what named either side. */
export function withPair(edits: Edits, reference: string, candidate: string): Edits {
  const others = edits.pairs.filter((pair) => pair.reference !== reference && pair.candidate !== candidate);
  const dropped = edits.dropped.filter((pair) => !(pair.reference === reference && pair.candidate === candidate));
  return { ...edits, pairs: [...others, { reference, candidate }], dropped };
}

export function withoutPair(edits: Edits, reference: string, candidate: string): Edits {
  const pairs = edits.pairs.filter((pair) => !(pair.reference === reference && pair.candidate === candidate));
  const dropped = edits.dropped.filter((pair) => !(pair.reference === reference && pair.candidate === candidate));
  return { ...edits, pairs, dropped: [...dropped, { reference, candidate }] };
}

export function withLayout(edits: Edits, key: string, recipe: string): Edits {
  return { ...edits, layouts: [...edits.layouts.filter((layout) => layout.key !== key), { key, recipe }] };
}

export function withOffset(edits: Edits, offset: number): Edits {
  return { ...edits, layer_offset: offset };
}

/** One edit as a sentence, and the edits without it. */
export interface EditLine {
  readonly text: string;
  readonly without: Edits;
}

export function editLines(edits: Edits): readonly EditLine[] {
  const lines: EditLine[] = [
    ...edits.pairs.map((pair) => ({
      text: `${pair.reference} is paired with ${pair.candidate}`,
      without: { ...edits, pairs: edits.pairs.filter((other) => other !== pair) },
    })),
    ...edits.dropped.map((pair) => ({
      text: `${pair.reference} is not paired with ${pair.candidate}`,
      without: { ...edits, dropped: edits.dropped.filter((other) => other !== pair) },
    })),
    ...edits.layouts.map((layout) => ({
      text: `${layout.key} is compared as ${layout.recipe}`,
      without: { ...edits, layouts: edits.layouts.filter((other) => other !== layout) },
    })),
  ];
  if (edits.layer_offset !== null) {
    const sign = edits.layer_offset > 0 ? "+" : "";
    lines.push({ text: `the candidate's layers are counted ${sign}${edits.layer_offset}`, without: { ...edits, layer_offset: null } });
  }
  return lines;
}
