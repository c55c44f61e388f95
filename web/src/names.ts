/** The end of a name that is never cut; shorter names have no start. */
const KEPT = 20;

/** Cuts a name before a dot near its end, so that both parts can be read. */
export function halves(name: string): readonly [string, string] {
  if (name.length <= KEPT) return ["", name];
  const from = name.length - KEPT;
  const dot = name.slice(from).search(/[._:/]/);
  const at = dot >= 0 && dot < KEPT / 2 ? from + dot : from;
  return [name.slice(0, at), name.slice(at)];
}

/** The part of a name that another does not share, with the word before it; all of it where they share little. */
export function differingPart(name: string, other: string): string {
  const [own, their] = [name.split(/(?<=[.:])/), other.split(/(?<=[.:])/)];
  const most = Math.min(own.length, their.length) - 1;
  let before = 0;
  while (before < most && own[before] === their[before]) before++;
  let after = 0;
  while (after < most - before && own.at(-1 - after) === their.at(-1 - after)) after++;
  const start = Math.max(0, before - 1);
  const part = own.slice(start, own.length - after).join("");
  return `${start > 0 ? "…" : ""}${after > 0 ? `${part.replace(/[.:]$/, "")}…` : part}`;
}
