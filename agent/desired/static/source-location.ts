import type { DesiredSource } from "../../decide/pod/desired.ts";

/** The location that a pod was read from, for logs. */
export function describeSource(source: DesiredSource): string {
  switch (source.kind) {
    case "file":
      return source.path;
    case "http":
      return redactUrl(source.url);
    case "api":
      return "the API server";
  }
}

/** A URL for logs, without user, password and query. */
export function redactUrl(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
