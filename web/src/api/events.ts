/** Server-sent events that come back by themselves after a break, until the caller stops them. */
import { waitBefore } from "./client";

export interface Listening {
  /** One parsed `data` by the name of its event. */
  on: Record<string, (data: unknown) => void>;
  /** True while the stream is up, false while it is being opened again. */
  connected?: (up: boolean) => void;
}

/** Listens to `path` and returns what ends it. */
export function listen(path: string, { on, connected }: Listening): () => void {
  let source: EventSource | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let attempt = 0;
  let stopped = false;

  function open(): void {
    source = new EventSource(path);
    source.onopen = () => {
      attempt = 0;
      connected?.(true);
    };
    source.onerror = () => {
      source?.close();
      if (stopped) return;
      connected?.(false);
      timer = setTimeout(open, waitBefore(attempt++));
    };
    for (const [name, take] of Object.entries(on)) {
      source.addEventListener(name, (event) => take(JSON.parse((event as MessageEvent<string>).data)));
    }
  }

  open();
  return () => {
    stopped = true;
    clearTimeout(timer);
    source?.close();
  };
}
