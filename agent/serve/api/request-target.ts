/** The target of a request, as Go's net/http and net/url read it. */
export interface RequestTarget {
  /** The path as sent, without the query. */
  readonly escapedPath: string;
  /** The path with every escape decoded: `/` may come from `%2F`. */
  readonly path: string;
  /** As sent, without the question mark. */
  readonly rawQuery: string;
  readonly query: URLSearchParams;
}

/** Parses the target of a request line or the `:path` of HTTP/2. Undefined where Go's server answers 400: it is no absolute path, or has a bad escape. */
export function parseRequestTarget(target: string): RequestTarget | undefined {
  if (!target.startsWith("/") || HAS_CONTROL_CHARACTER.test(target)) return undefined;
  const end = target.indexOf("?");
  const escapedPath = end < 0 ? target : target.slice(0, end);
  const path = decodePath(escapedPath);
  if (path === undefined) return undefined;
  const rawQuery = end < 0 ? "" : target.slice(end + 1);
  return { escapedPath, path, rawQuery, query: parseQuery(rawQuery) };
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: Go's url.Parse refuses exactly these.
const HAS_CONTROL_CHARACTER = /[\u0000-\u001f\u007f]/;
const ESCAPES = /(?:%[0-9A-Fa-f]{2})+/g;

/** Undefined for `%` without two hexadecimal digits. Bytes that are no UTF-8 become U+FFFD, which no name contains. */
export function decodePath(escaped: string): string | undefined {
  if (/%(?![0-9A-Fa-f]{2})/.test(escaped)) return undefined;
  return escaped.replaceAll(ESCAPES, (escapes) => Buffer.from(escapes.replaceAll("%", ""), "hex").toString("utf8"));
}

/** As Go's ParseQuery: a pair with a bad escape or with a semicolon is left out. */
function parseQuery(text: string): URLSearchParams {
  const pairs = text.split("&").filter((pair) => !pair.includes(";") && !/%(?![0-9A-Fa-f]{2})/.test(pair));
  return new URLSearchParams(pairs.join("&"));
}

/**
 * The path without `.`, `..` and doubled slashes, as Go's ServeMux cleans it before it matches. Escapes stay: `%2E%2E` is a
 * name.
 */
export function cleanPath(path: string): string {
  const names: string[] = [];
  for (const name of path.split("/")) {
    if (name === "" || name === ".") continue;
    if (name === "..") names.pop();
    else names.push(name);
  }
  const cleaned = `/${names.join("/")}`;
  return path.endsWith("/") && cleaned !== "/" ? `${cleaned}/` : cleaned;
}
