import { cleanPath, decodePath, type RequestTarget } from "./request-target.ts";
import type { Route } from "./route.ts";

/** What the paths and methods of the routes say about a request. */
export type RouteMatch =
  /** No endpoint is registered there. The kubelet answers this before it authenticates. */
  | { readonly kind: "unregistered" }
  /** The path is to be cleaned, or lacks its last slash. The kubelet answers this before it authenticates. */
  | { readonly kind: "redirect"; readonly location: string }
  | { readonly kind: "not found" }
  | { readonly kind: "method not allowed"; readonly allow: readonly string[] }
  | { readonly kind: "route"; readonly route: Route; readonly params: Readonly<Record<string, string>> };

export interface RouteTable {
  match(method: string, target: RequestTarget): RouteMatch;
}

/**
 * The folders of endpoints, as the kubelet registers its web services in Go's ServeMux. A folder without a slash at
 * its end is also registered with one. All other routes are registered by their exact path.
 */
const FOLDERS = [
  "/run",
  "/exec",
  "/attach",
  "/portForward",
  "/containerLogs",
  "/pods",
  "/stats/",
  "/runningpods/",
  "/checkpoint/",
  "/logs/",
  "/debug/pprof/",
];

interface ParsedRoute {
  readonly route: Route;
  /** Without the empty name after a slash at the end. */
  readonly names: readonly string[];
  readonly takesRest: boolean;
  readonly literalCount: number;
}

/**
 * Matches requests as the kubelet's two routers do, one after the other: Go's ServeMux, which cleans the path and knows
 * the folders, then go-restful's CurlyRouter, which splits the decoded path. Throws for a pattern that cannot match.
 */
export function createRouteTable(routes: readonly Route[]): RouteTable {
  const parsed = routes.map(parseRoute).toSorted((a, b) => b.literalCount - a.literalCount);
  const patterns = routes.map(({ pattern }) => pattern);
  const folders = FOLDERS.filter((folder) => patterns.some((pattern) => isBelow(pattern, folder)));
  const exact = new Set(patterns.filter((pattern) => !FOLDERS.some((folder) => isBelow(pattern, folder))));
  const unknown = [...exact].find((pattern) => pattern.includes("{"));
  if (unknown !== undefined) throw new Error(`route ${unknown} has parameters, but its folder is not in FOLDERS`);
  const isRegistered = (path: string) => exact.has(path) || folders.some((folder) => isBelow(path, folder));

  return {
    match(method, target) {
      const location = method === "CONNECT" ? undefined : redirectOf(target, isRegistered);
      if (location !== undefined) return { kind: "redirect", location };
      if (!isRegistered(decodeNames(target.escapedPath))) return { kind: "unregistered" };
      return matchRoute(parsed, method, target.path);
    },
  };
}

/** Where Go's ServeMux sends the client instead: to the folder, or to the cleaned path. */
function redirectOf(
  { escapedPath, rawQuery }: RequestTarget,
  isRegistered: (path: string) => boolean,
): string | undefined {
  const cleaned = cleanPath(escapedPath);
  const query = rawQuery === "" ? "" : `?${rawQuery}`;
  const registered = decodeNames(cleaned);
  if (!isRegistered(registered) && isRegistered(`${registered}/`)) return `${cleaned}/${query}`;
  return cleaned === escapedPath ? undefined : `${cleaned}${query}`;
}

/** Decodes each name of a path on its own: a name with `%2F` is no name of ours. */
function decodeNames(path: string): string {
  const decodeName = (name: string) => decodePath(name)?.replaceAll("/", "%2F") ?? name;
  return path.split("/").map(decodeName).join("/");
}

/** Whether a folder has the path. */
function isBelow(path: string, folder: string): boolean {
  const withSlash = folder.endsWith("/") ? folder : `${folder}/`;
  return path === folder || path.startsWith(withSlash);
}

function parseRoute(route: Route): ParsedRoute {
  const all = route.pattern.slice(1).split("/");
  const takesRest = all.at(-1)?.endsWith("...}") === true;
  const literalCount = all.filter((name) => !isParameter(name)).length;
  return { route, names: withoutLastSlash(all), takesRest, literalCount };
}

/** go-restful ignores one slash at the end, of patterns and of paths. */
const withoutLastSlash = (names: readonly string[]) => (names.at(-1) === "" ? names.slice(0, -1) : names);

const isParameter = (name: string) => name.startsWith("{");

function matchRoute(routes: readonly ParsedRoute[], method: string, path: string): RouteMatch {
  const segments = path.slice(1).split("/");
  const matching = routes.flatMap((parsed) => {
    const params = paramsOf(parsed, segments);
    return params === undefined ? [] : [{ route: parsed.route, params }];
  });
  if (matching.length === 0) return { kind: "not found" };
  const found = matching.find(({ route: { methods } }) => methods === "all" || methods.includes(method));
  if (found !== undefined) return { kind: "route", ...found };
  const allow = matching.flatMap(({ route: { methods } }) => (methods === "all" ? [] : methods));
  return { kind: "method not allowed", allow: [...new Set(allow)] };
}

/**
 * Undefined if the path does not match. A parameter may be empty, as in go-restful. The rest of a path keeps the slash at
 * its end.
 */
function paramsOf(
  { names, takesRest }: ParsedRoute,
  all: readonly string[],
): Readonly<Record<string, string>> | undefined {
  const segments = takesRest ? all : withoutLastSlash(all);
  if (takesRest ? segments.length < names.length : segments.length !== names.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, name] of names.entries()) {
    const segment = segments[index] ?? "";
    if (!isParameter(name)) {
      if (name !== segment) return undefined;
    } else if (name.endsWith("...}")) params[name.slice(1, -4)] = segments.slice(index).join("/");
    else params[name.slice(1, -1)] = segment;
  }
  return params;
}
