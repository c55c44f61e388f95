/** Check tensors of a port against golden data. */

import { elementsOf, FirstdiffError, isExact, toTensor, valueReader, type Tensor, type TensorLike } from "./dtypes.js";
import type { Golden } from "./golden.js";

const SHOWN = 10;

export type Status = "pass" | "shape" | "value" | "error";

/** One element beyond the tolerance, or not finite. */
export interface Difference {
  readonly index: readonly number[];
  readonly candidate: number;
  readonly golden: number;
}

/** What came of one check; `text` is one line, and the first differences below it where they were asked for. */
export interface CheckResult {
  readonly name: string;
  readonly status: Status;
  readonly shape: readonly number[];
  readonly goldenShape: readonly number[];
  readonly elements: number;
  /** finite elements beyond the tolerance */
  readonly beyond: number;
  /** elements where either side is NaN; they never pass */
  readonly nan: number;
  /** elements where either side is infinite and none is NaN; they never pass */
  readonly inf: number;
  /** over finite elements */
  readonly maxDifference: number;
  readonly meanDifference: number;
  readonly differences: readonly Difference[];
  readonly tolerance: string;
  readonly text: string;
}

export interface Summary {
  readonly checks: number;
  readonly passed: number;
  readonly shape: number;
  readonly value: number;
  readonly error: number;
  readonly text: string;
}

/** The first checkpoint that did not pass, and the last one before it that did. */
export interface Divergence {
  readonly name: string;
  readonly result: CheckResult;
  readonly after: string | undefined;
}

/**
 * atol, rtol: floats may differ by `atol + rtol * |golden|`; whole numbers and bool must be equal
 * verbose: list the first ten differences with their indices
 * print: called with the text of every result
 */
export interface ValidatorOptions {
  readonly atol?: number;
  readonly rtol?: number;
  readonly verbose?: boolean;
  readonly print?: (text: string) => void;
}

/**
 * Checks tensors, and remembers what came of it.
 *
 * ```js
 * const validator = new Validator(await openGolden(bytes), { print: console.log });
 * validator.check("mel", mel, [80, 100]);
 * if (!validator.allPassed) throw new Error(validator.summary().text);
 * ```
 */
export class Validator {
  readonly results: CheckResult[] = [];
  private readonly atol: number;
  private readonly rtol: number;

  constructor(
    readonly golden: Golden,
    private readonly options: ValidatorOptions = {},
  ) {
    this.atol = tolerance("atol", options.atol ?? 1e-4);
    this.rtol = tolerance("rtol", options.rtol ?? 1e-3);
  }

  /** False if any check did not pass, and if nothing was checked. */
  get allPassed(): boolean {
    return this.results.length > 0 && this.results.every(({ status }) => status === "pass");
  }

  /** Load a golden tensor, to feed a component with the reference's own input. */
  loadGolden(name: string): Tensor {
    return this.golden.load(name);
  }

  /** Compare a tensor with the golden one of that name. What cannot be compared is a result of status `error`. */
  check(name: string, value: TensorLike, shape?: readonly number[]): CheckResult {
    const result = this.judge(name, () => toTensor(name, value, shape));
    this.results.push(result);
    this.options.print?.(result.text);
    return result;
  }

  summary(): Summary {
    const count = (status: Status) => this.results.filter((result) => result.status === status).length;
    const counts = { checks: this.results.length, passed: count("pass"), shape: count("shape"), value: count("value"), error: count("error") };
    const failed = [
      counts.shape && `${counts.shape} of another shape`,
      counts.value && `${counts.value} of other values`,
      counts.error && `${counts.error} with an error`,
    ].filter(Boolean);
    const text = counts.checks
      ? [`${counts.passed} of ${counts.checks} passed`, ...failed].join(", ")
      : "nothing was validated, which is not a pass";
    return { ...counts, text: `${text} (${this.toleranceText(false)})` };
  }

  /**
   * Find the first checkpoint that does not pass; undefined if all do.
   *
   * names: in the order they are computed
   * compute: gives the tensor of a checkpoint. Few are asked for, by bisection: what has diverged is taken to stay so.
   *   Without it, the results of earlier checks are looked through.
   */
  async findDivergence(
    names: readonly string[],
    compute?: (name: string) => TensorLike | Promise<TensorLike>,
  ): Promise<Divergence | undefined> {
    if (!names.length) throw new FirstdiffError("there are no checkpoints to look for a divergence in; name at least one");
    return compute ? this.bisect(names, compute) : this.firstFailure(names);
  }

  private firstFailure(names: readonly string[]): Divergence | undefined {
    for (const [position, name] of names.entries()) {
      const result = this.results.findLast((known) => known.name === name);
      if (!result) throw new FirstdiffError(`${name} was not checked yet; check it, or say how to compute it`);
      if (result.status !== "pass") return { name, result, after: names[position - 1] };
    }
    return undefined;
  }

  private async bisect(
    names: readonly string[],
    compute: (name: string) => TensorLike | Promise<TensorLike>,
  ): Promise<Divergence | undefined> {
    let low = 0;
    let high = names.length;
    let failed: CheckResult | undefined;
    while (low < high) {
      const middle = (low + high) >> 1;
      const name = names[middle] as string;
      const result = await this.checkComputed(name, compute);
      if (result.status === "pass") {
        low = middle + 1;
        continue;
      }
      failed = result;
      if (result.status === "error") return { name, result, after: names[low - 1] }; // no side to go on with
      high = middle;
    }
    return failed && { name: failed.name, result: failed, after: names[low - 1] };
  }

  private async checkComputed(
    name: string,
    compute: (name: string) => TensorLike | Promise<TensorLike>,
  ): Promise<CheckResult> {
    let value: TensorLike;
    try {
      value = await compute(name);
    } catch (error) {
      const result = this.judge(name, () => {
        throw error;
      });
      this.results.push(result);
      this.options.print?.(result.text);
      return result;
    }
    return this.check(name, value);
  }

  private judge(name: string, candidate: () => Tensor): CheckResult {
    try {
      const golden = this.golden.load(name);
      return this.compare(name, candidate(), golden);
    } catch (error) {
      const sentence = error instanceof Error ? error.message : String(error);
      return this.result({ ...NOTHING, name, status: "error" }, sentence);
    }
  }

  private compare(name: string, candidate: Tensor, golden: Tensor): CheckResult {
    const exact = isExact(candidate.dtype) && isExact(golden.dtype);
    const shapes = { name, shape: candidate.shape, goldenShape: golden.shape, tolerance: this.toleranceText(exact) };
    if (candidate.shape.join() !== golden.shape.join()) return this.result({ ...NOTHING, ...shapes, status: "shape" });
    const counts = this.count(candidate, golden, exact);
    const status = counts.beyond || counts.nan || counts.inf ? "value" : "pass";
    return this.result({ ...shapes, ...counts, status, elements: elementsOf(golden.shape) });
  }

  private count(candidate: Tensor, golden: Tensor, exact: boolean): Counts {
    const [read, readGolden] = [valueReader(candidate), valueReader(golden)];
    const [whole, wholeGolden] = [candidate.data, golden.data];
    const [atol, rtol] = exact ? [0, 0] : [this.atol, this.rtol];
    let [beyond, nan, inf, maxDifference, sum] = [0, 0, 0, 0, 0];
    const differences: Difference[] = [];
    const perElement = golden.data.length / Math.max(1, elementsOf(golden.shape));
    for (let index = 0; index < golden.data.length; index++) {
      const value = read(index);
      const expected = readGolden(index);
      const difference = exact ? wholeDifference(whole[index], wholeGolden[index]) : Math.abs(value - expected);
      let outside = true;
      if (Number.isNaN(value) || Number.isNaN(expected)) nan++;
      else if (!Number.isFinite(value) || !Number.isFinite(expected)) inf++;
      else {
        outside = difference > atol + rtol * Math.abs(expected);
        if (outside) beyond++;
        if (difference > maxDifference) maxDifference = difference;
        sum += difference;
      }
      if (outside && differences.length < SHOWN) {
        differences.push({ index: unravel(Math.floor(index / perElement), golden.shape), candidate: value, golden: expected });
      }
    }
    const finite = golden.data.length - nan - inf;
    return { beyond, nan, inf, maxDifference, meanDifference: finite ? sum / finite : 0, differences };
  }

  private result(fields: Omit<CheckResult, "text">, sentence?: string): CheckResult {
    const complete = { ...fields, tolerance: fields.tolerance || this.toleranceText(false) };
    return { ...complete, text: describe(complete, sentence, this.options.verbose ?? false) };
  }

  private toleranceText(exact: boolean): string {
    return exact ? "exact" : `atol ${this.atol}, rtol ${this.rtol}`;
  }
}

type Counts = Pick<CheckResult, "beyond" | "nan" | "inf" | "maxDifference" | "meanDifference" | "differences">;

const NOTHING = {
  shape: [],
  goldenShape: [],
  elements: 0,
  beyond: 0,
  nan: 0,
  inf: 0,
  maxDifference: 0,
  meanDifference: 0,
  differences: [],
  tolerance: "",
} as const;

function describe(result: Omit<CheckResult, "text">, sentence: string | undefined, verbose: boolean): string {
  const { name, status, shape, goldenShape, beyond, elements, nan, inf } = result;
  const within = `(${result.tolerance})`;
  if (status === "error") return `ERROR  ${name}: ${sentence} ${within}`;
  if (status === "shape") return `SHAPE  ${name} is [${shape.join(", ")}], golden is [${goldenShape.join(", ")}] ${within}`;
  const nonfinite = `${nan ? `, ${nan} NaN` : ""}${inf ? `, ${inf} Inf` : ""}`;
  const figures = `max ${short(result.maxDifference)} mean ${short(result.meanDifference)}`;
  const line = `${status === "pass" ? "pass " : "VALUE"}  ${name} [${shape.join(", ")}] ${figures}, ${beyond} of ${elements} beyond${nonfinite} ${within}`;
  if (!verbose) return line;
  const listed = result.differences.map(({ index, candidate, golden }) => `\n       [${index.join(", ")}] ${candidate}, golden ${golden}`);
  return line + listed.join("");
}

function wholeDifference(value: number | bigint | undefined, golden: number | bigint | undefined): number {
  if (typeof value === "number" && typeof golden === "number") return Math.abs(value - golden);
  const difference = BigInt(value as number | bigint) - BigInt(golden as number | bigint);
  return Number(difference < 0n ? -difference : difference);
}

function unravel(index: number, shape: readonly number[]): number[] {
  const place: number[] = [];
  for (const size of [...shape].reverse()) {
    place.unshift(index % size);
    index = Math.floor(index / size);
  }
  return place;
}

function short(value: number): string {
  return String(Number(value.toPrecision(3)));
}

function tolerance(what: string, value: number): number {
  if (!(value >= 0 && Number.isFinite(value))) throw new FirstdiffError(`${what} is ${value}; a number from 0 on was expected`);
  return value;
}
