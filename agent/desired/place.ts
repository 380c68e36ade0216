import type { StaticPodSource } from "../../proto/kubernetes/static-pod.ts";

/** Where a pod was read from, as a log may have it. */
export function placeOf(source: StaticPodSource): string {
  return source.kind === "file" ? source.path : withoutSecrets(source.url);
}

/** A URL as a log may have it: neither user, password nor query. */
export function withoutSecrets(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
