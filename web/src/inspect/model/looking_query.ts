/** A look as it stands in the address: `0.11_0_16.30_24_12` is an element and the windows of the shown dimensions. */
import { clamp, elements, firstLook, flatOf, indexOf, MOST_FLAT, MOST_SHOWN, showing, type Looking } from "./at";

const PART = /^(\d+)(?:_(\d+)_(\d+))?$/;

/** A `-` at the end says that the later of two dimensions is shown as rows. */
export function toQuery(look: Looking, shape: readonly number[]): string {
  if (look.arrangement === "flat") return `flat_${flatOf(look.index, shape)}_${look.flatStart}_${look.flatCount}`;
  const parts = look.index.map((at, dim) => {
    const place = look.shown.indexOf(dim);
    return place < 0 ? String(at) : `${at}_${look.start[place] ?? 0}_${look.count[place] ?? 1}`;
  });
  const [first = 0, second = Infinity] = look.shown;
  return parts.join(".") + (first > second ? "-" : "");
}

/** The look an address names; null where it names none that fits the shape. */
export function fromQuery(text: string | null, shape: readonly number[]): Looking | null {
  if (!text) return null;
  const first = firstLook(shape);
  const flat = /^flat_(\d+)_(\d+)_(\d+)$/.exec(text);
  if (flat) {
    const last = Math.max(0, elements(shape) - 1);
    const [element = 0, flatStart = 0, flatCount = 1] = [clamp(Number(flat[1]), 0, last), clamp(Number(flat[2]), 0, last), clamp(Number(flat[3]), 1, MOST_FLAT)];
    return showing({ ...first, arrangement: "flat", flatStart, flatCount }, shape, indexOf(element, shape));
  }
  const parts = text.replace(/-$/, "").split(".").map((part) => PART.exec(part));
  if (parts.length !== shape.length || parts.some((part) => part === null)) return null;
  const shown = parts.map((part, dim) => (part?.[2] === undefined ? -1 : dim)).filter((dim) => dim >= 0);
  if (shown.length < 1 || shown.length > 2) return null;
  if (text.endsWith("-")) shown.reverse();
  const index = parts.map((part, dim) => clamp(Number(part?.[1]), 0, Math.max(0, (shape[dim] ?? 1) - 1)));
  const start = shown.map((dim) => clamp(Number(parts[dim]?.[2]), 0, Math.max(0, (shape[dim] ?? 1) - 1)));
  const count = shown.map((dim) => clamp(Number(parts[dim]?.[3]), 1, MOST_SHOWN));
  return showing({ ...first, arrangement: shown.length === 2 ? "grid" : "list", shown, start, count }, shape, index);
}
