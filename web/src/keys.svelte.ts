/** Keyboard shortcuts: whoever is on screen registers theirs, and `?` lists what holds now. */
export interface Shortcut {
  /** As in `KeyboardEvent.key`: "j", "ArrowDown", "?". */
  key: string;
  does: string;
  group?: string;
  /** Also while a text field has the focus. */
  whileTyping?: boolean;
  /** Left out for keys that a part of the page hears itself while it has the focus; several may stand in `key`. */
  run?: (event: KeyboardEvent) => void;
}

/** A key that whatever has the focus hears by itself; it is only listed. */
export const told = (group: string, key: string, does: string): Shortcut => ({ key, does, group });

const NAMES: Record<string, string> = {
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
  Escape: "Esc",
  PageUp: "PgUp",
  PageDown: "PgDn",
  " ": "Space",
};
const TEXT_FIELDS = "input:not([type=checkbox]):not([type=radio]):not([type=range]):not([type=file]), textarea, select, [contenteditable]";

class Keys {
  #shortcuts = $state.raw<readonly Shortcut[]>([]);
  helpOpen = $state(false);

  get all(): readonly Shortcut[] {
    return this.#shortcuts;
  }

  /** Adds shortcuts and returns what takes them away: `$effect(() => keys.register([...]))`. */
  register(added: readonly Shortcut[]): () => void {
    this.#shortcuts = [...this.#shortcuts, ...added];
    return () => {
      this.#shortcuts = this.#shortcuts.filter((shortcut) => !added.includes(shortcut));
    };
  }

  handle(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as Element | null;
    if (target?.closest?.("dialog[open]")) return;
    const typing = target?.matches?.(TEXT_FIELDS) ?? false;
    const shortcut = this.#shortcuts.findLast((one) => one.run && sameKey(one.key, event.key) && (!typing || one.whileTyping));
    if (!shortcut?.run) return;
    event.preventDefault();
    shortcut.run(event);
  }
}

function sameKey(wanted: string, pressed: string): boolean {
  return wanted.length === 1 ? wanted === pressed : wanted.toLowerCase() === pressed.toLowerCase();
}

/** What stands on the keys of a shortcut. */
export function keyNames(key: string): string[] {
  return (key === " " ? [key] : key.split(" ")).map((one) => NAMES[one] ?? one);
}

export const keys = new Keys();
