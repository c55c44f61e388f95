/** The theme on screen: the system's, unless the reader chose one. */
export type ThemeChoice = "system" | "light" | "dark";

const STORED = "firstdiff.theme";

class Theme {
  choice = $state<ThemeChoice>(readChoice());
  /** Counts changes of what is on screen; canvases that paint with tokens depend on it to repaint. */
  painted = $state(0);

  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.painted++);
  }

  choose(choice: ThemeChoice): void {
    this.choice = choice;
    if (choice === "system") {
      delete document.documentElement.dataset["theme"];
      forget(STORED);
    } else {
      document.documentElement.dataset["theme"] = choice;
      remember(STORED, choice);
    }
    this.painted++;
  }
}

function readChoice(): ThemeChoice {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

function remember(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // storage is blocked: the choice holds until the page closes
  }
}

function forget(key: string): void {
  try {
    localStorage.removeItem(key);
  } catch {
    // storage is blocked: nothing was kept
  }
}

export const theme = new Theme();

/** What a token such as `--mismatch` is on screen now, as `rgb(…)`: canvases cannot resolve `light-dark()`. */
export function colourOf(token: `--${string}`): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
