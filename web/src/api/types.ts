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
