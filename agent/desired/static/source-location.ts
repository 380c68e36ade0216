import type { DesiredSource } from "../../decide/pod/desired.ts";

/** Where a pod was read from, as a log may have it. */
export function placeOf(source: DesiredSource): string {
  switch (source.kind) {
    case "file":
      return source.path;
    case "http":
      return withoutSecrets(source.url);
    case "api":
      return "the API server";
  }
}

/** A URL as a log may have it: neither user, password nor query. */
export function withoutSecrets(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
