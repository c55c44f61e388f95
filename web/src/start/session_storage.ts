/** What a tab remembers over a reload: small JSON values in its session storage. */
export function keep(key: string, value: unknown): void {
  try {
    if (value === null) sessionStorage.removeItem(`firstdiff.${key}`);
    else sessionStorage.setItem(`firstdiff.${key}`, JSON.stringify(value));
  } catch {
    // storage is blocked or full: a reload then starts with an empty form
  }
}

export function kept<T>(key: string, fits: (value: unknown) => value is T): T | null {
  try {
    const value: unknown = JSON.parse(sessionStorage.getItem(`firstdiff.${key}`) ?? "null");
    return fits(value) ? value : null;
  } catch {
    return null;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
