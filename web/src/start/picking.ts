/** Files from an input, or from a drop of files and whole folders, with their names as the server keeps them. */
export interface PickedFile {
  /** May hold folders: `dump/0_query.pth`. */
  name: string;
  file: File;
}

const ORDER = new Intl.Collator("en", { numeric: true });

export function fromInput(list: FileList | null): PickedFile[] {
  return inOrder([...(list ?? [])].map((file) => ({ name: file.webkitRelativePath || file.name, file })));
}

/** Everything that was dropped. Entries must be taken before the first await: the browser empties the list after it. */
export async function fromDrop(transfer: DataTransfer): Promise<PickedFile[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (entries.length === 0) return fromInput(transfer.files);
  return inOrder((await Promise.all(entries.map(filesUnder))).flat());
}

async function filesUnder(entry: FileSystemEntry): Promise<PickedFile[]> {
  if (isFile(entry)) {
    const file = await new Promise<File>((resolve, reject) => entry.file(resolve, reject));
    return [{ name: entry.fullPath.replace(/^\//, ""), file }];
  }
  const children = await childrenOf(entry as FileSystemDirectoryEntry);
  return (await Promise.all(children.map(filesUnder))).flat();
}

function isFile(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile;
}

/** A reader hands out a folder in portions of a hundred, and an empty one at the end. */
async function childrenOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const found: FileSystemEntry[] = [];
  for (;;) {
    const portion = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (portion.length === 0) return found;
    found.push(...portion);
  }
}

function inOrder(files: PickedFile[]): PickedFile[] {
  return files.sort((one, other) => ORDER.compare(one.name, other.name));
}

export function totalSize(files: readonly PickedFile[]): number {
  return files.reduce((sum, { file }) => sum + file.size, 0);
}

/** What to call them all: the one file, the folder they share, or the first and how many more. */
export function labelOf(files: readonly PickedFile[]): string {
  const [first] = files;
  if (!first) return "";
  if (files.length === 1) return first.name;
  const folder = first.name.split("/")[0] ?? "";
  const shared = first.name.includes("/") && files.every(({ name }) => name.startsWith(`${folder}/`));
  return shared ? `${folder}/` : `${first.name} and ${files.length - 1} more`;
}
