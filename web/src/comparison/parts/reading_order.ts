/** Elements that draw other lines than before stand anywhere on the page; selecting, tabbing and reading aloud follow the document. */

/** Puts the items of a list in the order of their lines; one that is in use stays, and the others come to lie around it. */
export function putInOrder(list: HTMLElement): void {
  const items = [...list.querySelectorAll<HTMLElement>(":scope > [data-place]")];
  const ordered = items.toSorted((one, other) => placeOf(one) - placeOf(other));
  let next = items[0] ?? null;
  for (const item of ordered) {
    if (item === next || stays(item)) next = following(item);
    else list.insertBefore(item, next);
  }
}

function placeOf(item: HTMLElement): number {
  return Number(item.dataset["place"]);
}

/** To move an element takes away its focus, its selection, and how far its parts are scrolled. */
function stays(item: HTMLElement): boolean {
  const selection = getSelection();
  const selected = selection !== null && !selection.isCollapsed && selection.containsNode(item, true);
  return selected || item.children.length > 1 || item.contains(document.activeElement);
}

/** What stands behind an item: the next one, or what the list ends with. */
function following(item: HTMLElement): HTMLElement | null {
  return item.nextSibling as HTMLElement | null;
}
