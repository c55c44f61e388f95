import { SvelteMap } from "svelte/reactivity";

const UNMEASURED = 520;

/** Where the list stands in the window, and how tall its lines are. One per table; `watch` keeps it true. */
export class Viewport {
  /** The height within the list that the window's upper edge shows. */
  offset = $state(0);
  height = $state(0);
  rem = $state(14);
  narrow = $state(false);
  readonly #details = new SvelteMap<number, number>();

  /** Below this width a row takes two lines. */
  static readonly NARROW = "(max-width: 719px)";

  readonly rowHeight = $derived(Math.round((this.narrow ? 4.4 : 2.43) * this.rem));
  readonly groupHeight = $derived(Math.round(2.72 * this.rem));

  detailHeight(index: number): number {
    return this.#details.get(index) ?? UNMEASURED;
  }

  measure(list: HTMLElement): void {
    this.offset = -list.getBoundingClientRect().top;
    this.height = document.documentElement.clientHeight;
  }

  /** Follows scrolling, resizing and whatever else moves the list; returns what ends it. */
  watch(list: HTMLElement): () => void {
    const media = matchMedia(Viewport.NARROW);
    let frame = 0;
    const now = (): void => {
      frame = 0;
      this.narrow = media.matches;
      this.rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
      this.measure(list);
    };
    const soon = (): void => {
      frame ||= requestAnimationFrame(now);
    };
    const resized = new ResizeObserver(soon);
    resized.observe(document.body);
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    now();
    return () => {
      cancelAnimationFrame(frame);
      resized.disconnect();
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }

  /** Takes the height of what is shown under an opened row, and keeps what is in sight in its place. */
  follow(index: number, topOf: () => number | undefined): (element: HTMLElement) => () => void {
    return (element) => {
      const resized = new ResizeObserver(() => {
        const before = this.detailHeight(index);
        const after = element.offsetHeight;
        if (before === after) return;
        this.#details.set(index, after);
        const top = topOf();
        if (top !== undefined && top + this.rowHeight + before <= this.offset) scrollBy(0, after - before);
      });
      resized.observe(element);
      return () => resized.disconnect();
    };
  }
}
