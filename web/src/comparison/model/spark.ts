/** How a row's worst difference stands to what is allowed, as a bar: the middle is just allowed. */
export interface Spark {
  /** Shares of the bar's width, from 0 to 1. */
  readonly begin: number;
  readonly end: number;
  readonly beyond: boolean;
}

const DECADES = 4;

/** Each half of the bar is four powers of ten; what lies further out is drawn at its end. */
export function spark(ratio: number | null): Spark | null {
  if (ratio === null) return null;
  if (Number.isNaN(ratio)) return { begin: 0.5, end: 1, beyond: true };
  const decades = ratio <= 0 ? -DECADES : Math.log10(ratio);
  const place = 0.5 + Math.min(DECADES, Math.max(-DECADES, decades)) / (2 * DECADES);
  return ratio > 1 ? { begin: 0.5, end: Math.max(place, 0.53), beyond: true } : { begin: 0, end: Math.max(place, 0.01), beyond: false };
}
