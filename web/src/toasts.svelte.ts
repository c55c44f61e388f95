/** Short messages that come and go; anything that must not be lost belongs on the page instead. */
export interface Toast {
  id: number;
  text: string;
  tone: "plain" | "error";
}

const SHOWN = 6000;

class Toasts {
  list = $state<Toast[]>([]);
  #next = 0;

  say(text: string, tone: Toast["tone"] = "plain"): void {
    const id = this.#next++;
    this.list.push({ id, text, tone });
    if (tone === "plain") setTimeout(() => this.dismiss(id), SHOWN);
  }

  dismiss(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
