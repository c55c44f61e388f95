/** Speed over the last few seconds, and the time that is left at it. */
const WINDOW = 5000;

export interface Pace {
  perSecond: number | null;
  secondsLeft: number | null;
}

export class Rate {
  #seen: { at: number; done: number }[] = [];

  take(done: number, total: number, at: number = performance.now()): Pace {
    this.#seen.push({ at, done });
    while (this.#seen.length > 2 && at - (this.#seen[0]?.at ?? at) > WINDOW) this.#seen.shift();
    const oldest = this.#seen[0];
    if (!oldest || at - oldest.at < 200 || done <= oldest.done) return { perSecond: null, secondsLeft: null };
    const perSecond = ((done - oldest.done) / (at - oldest.at)) * 1000;
    return { perSecond, secondsLeft: (total - done) / perSecond };
  }
}
