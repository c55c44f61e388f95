/** The API's types under the names this page uses, with confidences and the like known to be plain numbers. */
import type { Diagnosis, Divergence, Summary } from "../../api/types";
import type { components } from "../../api/schema";

type Schemas = components["schemas"];
type Narrowed<T, Fields> = Omit<T, keyof Fields> & Fields;

export type { Diagnosis, Divergence, Entry, FirstRow, Head, Num, Origin, Progress, RowLine, Summary, Verdict } from "../../api/types";

export type SideName = "reference" | "candidate";
export type Diagnosed = Narrowed<Schemas["DiagnosisOut"], { diagnosis: Diagnosis[] }>;
export type Note = Schemas["Note"];
export type Statistics = Schemas["Statistics"];
export type TensorInfo = Schemas["TensorInfo"];
export type Tolerance = Schemas["Tolerance"];
export type Required = Schemas["Required"];
export type Histogram = Narrowed<Schemas["Histogram"], { edges: number[] }>;
export type Pairing = Narrowed<Schemas["Pairing"], { confidence: number }>;
export type Alignment = Narrowed<
  Schemas["Alignment"],
  { coverage: number; confidence: number; reference_coverage: number; candidate_coverage: number }
>;
export type Metrics = Schemas["Metrics"];
export type Pair = Narrowed<Schemas["Pair"], { pairing: Pairing | null; alignment: Alignment | null; diagnosis: Diagnosis[] }>;
export type RowDetail = Narrowed<Schemas["RowDetail"], { pair: Pair; histogram: Histogram | null }>;
export type JudgeIn = Schemas["JudgeIn"];
export type JudgedRow = Schemas["JudgedRow"];
export type Judged = Narrowed<Schemas["Judged"], { summary: Summary; first_divergence: Divergence | null }>;
export type Edits = Schemas["Edits"];
export type TensorLine = Schemas["TensorLine"];
