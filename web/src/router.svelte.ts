/** Where in the page we are: typed routes over the history API, and the state kept in the query. */
import { isShared } from "./shared/offline_mode";

export type Route =
  | { page: "start" }
  | { page: "inference" }
  | { page: "comparison"; id: string; row: number | null }
  | { page: "unknown"; path: string };

export type QueryChange = Record<string, string | number | boolean | null>;

const COMPARISON = /^\/c\/([^/]+)(?:\/row\/(\d+))?\/?$/;

export function parseRoute(path: string): Route {
  if (path === "/" || path === "/index.html") return { page: "start" };
  if (path === "/inference") return { page: "inference" };
  const found = COMPARISON.exec(path);
  if (!found?.[1]) return { page: "unknown", path };
  return { page: "comparison", id: decodeURIComponent(found[1]), row: found[2] ? Number(found[2]) : null };
}

export function pathOf(route: Route): string {
  if (route.page === "start") return "/";
  if (route.page === "inference") return "/inference";
  if (route.page === "unknown") return route.path;
  const base = `/c/${encodeURIComponent(route.id)}`;
  return route.row === null ? base : `${base}/row/${route.row}`;
}

/** The address within the page; a file has only the part behind the # for that. */
function current(): URL {
  return new URL(isShared ? location.hash.slice(1) || "/" : location.pathname + location.search, "http://localhost");
}

class Router {
  route = $state<Route>(parseRoute(current().pathname));
  query = $state.raw(current().searchParams);

  constructor() {
    addEventListener("popstate", () => this.#read());
  }

  /** An address within the page as a link that others can open. */
  link(address: string): string {
    return isShared ? `${location.href.split("#")[0]}#${address}` : location.origin + address;
  }

  /** Goes to an address within the page. */
  open(address: string): void {
    this.#write(address, false);
  }

  /** Goes to a route; `keepQuery` carries filters and sorting along, `replace` leaves no step for the back button. */
  go(route: Route, { replace = false, keepQuery = false }: { replace?: boolean; keepQuery?: boolean } = {}): void {
    this.#write(pathOf(route) + (keepQuery ? current().search : ""), replace);
  }

  /** Changes some keys of the query and leaves the rest; null takes a key away. */
  setQuery(change: QueryChange, { replace = true }: { replace?: boolean } = {}): void {
    const next = new URLSearchParams(current().search);
    for (const [key, value] of Object.entries(change)) {
      if (value === null || value === "" || value === false) next.delete(key);
      else next.set(key, value === true ? "1" : String(value));
    }
    const text = next.toString();
    this.#write(current().pathname + (text ? `?${text}` : ""), replace);
  }

  #write(address: string, replace: boolean): void {
    const now = current();
    if (address === now.pathname + now.search) return;
    history[replace ? "replaceState" : "pushState"](null, "", isShared ? `#${address}` : address);
    this.#read();
  }

  #read(): void {
    const now = current();
    this.route = parseRoute(now.pathname);
    this.query = now.searchParams;
  }
}

export const router = new Router();

/** Turns clicks on links inside the page into steps of the router; everything else stays with the browser. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  const address = link.getAttribute("href") ?? "";
  if (!address.startsWith("/") || address.startsWith("//") || address.startsWith("/api/") || address.includes("#")) return;
  event.preventDefault();
  router.open(address);
}
