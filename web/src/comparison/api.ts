/** What the comparison page asks of the server beyond the shared provider. */
import { askJson } from "../api/client";
import type { Diagnosed, Edits, JudgeIn, Judged, RowDetail, SideName, TensorLine } from "./model/types";
import type { Entry } from "../api/types";

const at = (id: string, rest: string): string => `/api/comparisons/${encodeURIComponent(id)}/${rest}`;

export type ReportFormat = "json" | "md" | "junit" | "html";

export function reportAddress(id: string, format: ReportFormat): string {
  return at(id, `report?format=${format}`);
}

export function mapAddress(id: string): string {
  return at(id, "map.toml");
}

export function rowDetail(id: string, index: number, signal?: AbortSignal): Promise<RowDetail> {
  return askJson(at(id, `rows/${index}`), { signal });
}

/** Looks for the cause of one row, however long it takes. */
export function diagnoseRow(id: string, index: number, signal?: AbortSignal): Promise<Diagnosed> {
  return askJson(at(id, `rows/${index}/diagnosis`), { method: "POST", signal });
}

export function judge(id: string, wanted: JudgeIn, signal?: AbortSignal): Promise<Judged> {
  return askJson(at(id, "judge"), { method: "POST", json: wanted, signal, retries: 2 });
}

export async function tolerancesFile(id: string, wanted: JudgeIn): Promise<string> {
  return (await askJson<{ toml: string }>(at(id, "tolerances"), { method: "POST", json: wanted })).toml;
}

export function edits(id: string, signal?: AbortSignal): Promise<Edits> {
  return askJson(at(id, "edits"), { signal });
}

export function putEdits(id: string, changed: Edits): Promise<Entry> {
  return askJson(at(id, "edits"), { method: "PUT", json: changed });
}

export async function tensors(id: string, side: SideName, search: string, limit: number, signal?: AbortSignal): Promise<TensorLine[]> {
  const query = new URLSearchParams({ side, search, limit: String(limit) });
  return (await askJson<{ tensors: TensorLine[] }>(at(id, `tensors?${query}`), { signal })).tensors;
}

/** Hands a text to the browser as a file to keep. */
export function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
