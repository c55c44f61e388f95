/** What travels between the page and the server, under the names the page uses; `schema.d.ts` is generated. */
import type { components } from "./schema";

type Schemas = components["schemas"];
/** The same type with some fields known more precisely than the description of the API says. */
type Narrowed<T, Fields> = Omit<T, keyof Fields> & Fields;

export type Num = Schemas["Num"];
export type Verdict = Schemas["Head"]["verdict"];
export type Origin = Schemas["Divergence"]["origin"];
export type Summary = Narrowed<Schemas["Summary"], { coverage: number }>;
export type Progress = Narrowed<
  Schemas["Progress"],
  { bytes_per_second: number | null; seconds_left: number | null; first?: string | null }
>;
export type Side = Schemas["SideOut"];
export type Entry = Narrowed<Schemas["Entry"], { verdict: Verdict | null; summary: Summary | null; progress: Progress | null }>;
export type ComparisonKind = Entry["kind"];
export type ComparisonState = Entry["state"];
export type Entries = Narrowed<Schemas["EntriesOut"], { comparisons: Entry[] }>;
export type About = Schemas["AboutOut"];
export type Project = Schemas["ProjectOut"];
export type ProjectValidation = Schemas["ProjectValidation"];

export type SideIn = { path: string } | { upload: string };
export type Options = Partial<Schemas["OptionsIn"]>;
export type CompareIn = Narrowed<Schemas["CompareIn"], { reference: SideIn; candidate: SideIn | null; third: SideIn | null; options: Options }>;

export type FileClaim = Schemas["FileIn"];
export type UploadFile = Schemas["UploadFile"];
export type Upload = Schemas["Upload"];

export type Divergence = Schemas["Divergence"];
export type Diagnosis = Narrowed<Schemas["Diagnosis"], { confidence: number }>;
/** The first divergence in sentences. */
export type FirstRow = Schemas["FirstRow"];
/** A comparison without its rows. */
export type Head = Narrowed<Schemas["Head"], { summary: Summary; diagnosis: Diagnosis[] }>;
export type RowLine = Narrowed<
  Schemas["RowLine"],
  { coverage: number | null; pairing_confidence: number | null; origin: Origin | null }
>;

/** One of the two runs; the third is a trace beside them. */
export type PairSide = "reference" | "candidate";
export type SideName = PairSide | "third";
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
export type ReportFormat = "json" | "md" | "junit" | "html";

/** A row to inspect: its tensors in the layout they were compared in, and each side as stored. */
export type Layout = Narrowed<Schemas["InspectOut"], { changed: SideName[]; sample_rate: number | null }>;
export type Space = "aligned" | "original";
/** What the server cuts: `at` with the window of each shown dimension (`0,3,0:16,:`), or a run of the flattened elements. */
export type Part = { at: string } | { flat: string };
export type Element = Schemas["ElementOut"];
export type FoundElements = Schemas["FoundElements"];
export type SearchKind = "value" | "range" | "nan" | "inf" | "mismatch";
export type BinnedValues = Narrowed<Schemas["BinnedValues"], { edges: number[] }>;
export type Profile = Schemas["Profile"];
export type MappingPart = Schemas["MappingPart"];
export type MappedView = Schemas["MappedView"];
export type TriedMapping = Schemas["TriedMapping"];
export type ElementInLayer = Schemas["ElementInLayer"];
export type AudioReport = Narrowed<
  Schemas["AudioOut"],
  { sample_rate: number; seconds: number; peaks: Record<PairSide | "difference", Peaks> }
>;
export type Peaks = { low: number[]; high: number[] };
