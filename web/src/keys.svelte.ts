/** Keyboard shortcuts: whoever is on screen registers theirs, and `?` lists what holds now. */
export interface Shortcut {
  /** As in `KeyboardEvent.key`: "j", "ArrowDown", "?"; letters are compared without case unless `shift` says so. */
  key: string;
  does: string;
  group?: string;
  /** Also while a text field has the focus. */
  whileTyping?: boolean;
  run: (event: KeyboardEvent) => void;
}

const NAMES: Record<string, string> = {
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
  Escape: "Esc",
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
    const shortcut = this.#shortcuts.findLast((one) => sameKey(one.key, event.key) && (!typing || one.whileTyping));
    if (!shortcut) return;
    event.preventDefault();
    shortcut.run(event);
  }
}

function sameKey(wanted: string, pressed: string): boolean {
  return wanted.length === 1 ? wanted === pressed : wanted.toLowerCase() === pressed.toLowerCase();
}

export function keyName(key: string): string {
  return NAMES[key] ?? key;
}

export const keys = new Keys();
