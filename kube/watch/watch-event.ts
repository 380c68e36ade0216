import { errorOfStatus, KubeError, readStatus } from "../error.ts";
import type { KubeObject } from "../resource.ts";
import { isKubeObject } from "./list.ts";

/** One decoded line of a watch. */
export type DecodedWatchEvent<T extends KubeObject> =
  | { readonly kind: "added" | "modified" | "deleted"; readonly object: T; readonly resourceVersion: string }
  /** Nothing else has changed up to this resourceVersion. */
  | { readonly kind: "bookmark"; readonly resourceVersion: string; readonly endsInitialEvents: boolean }
  /** The server ends this watch with an error, or the line is malformed. */
  | { readonly kind: "error"; readonly error: KubeError }
  | { readonly kind: "unknown"; readonly type: string };

const CHANGES = { ADDED: "added", MODIFIED: "modified", DELETED: "deleted" } as const;
const isChange = (type: string): type is keyof typeof CHANGES => Object.hasOwn(CHANGES, type);

/** Decodes one line of a watch from unchecked JSON. `verb` names the request in errors. Never throws. */
export function decodeWatchEvent<T extends KubeObject>(verb: string, line: unknown): DecodedWatchEvent<T> {
  const { type, object } = (line ?? {}) as { readonly type?: unknown; readonly object?: unknown };
  if (typeof type !== "string") return malformed(`${verb}: a line is not a watch event`);
  if (type === "ERROR") return { kind: "error", error: errorOfEvent(verb, object) };
  if (type === "BOOKMARK") return decodeBookmark(verb, object);
  if (!isChange(type)) return { kind: "unknown", type };
  const resourceVersion = versionOf(object);
  if (resourceVersion === undefined || !isKubeObject(object))
    return malformed(`${verb}: an event whose object has no name or resourceVersion`);
  // The server's schema guarantees the type; fields of a newer release are kept.
  return { kind: CHANGES[type], object: object as unknown as T, resourceVersion };
}

function decodeBookmark(verb: string, object: unknown): DecodedWatchEvent<never> {
  const resourceVersion = versionOf(object);
  if (resourceVersion === undefined) return malformed(`${verb}: a bookmark without a resourceVersion`);
  const { annotations } = (object as KubeObject).metadata;
  return {
    kind: "bookmark",
    resourceVersion,
    endsInitialEvents: annotations?.["k8s.io/initial-events-end"] === "true",
  };
}

function versionOf(object: unknown): string | undefined {
  const { metadata } = (object ?? {}) as { readonly metadata?: { readonly resourceVersion?: unknown } | null };
  const version = metadata?.resourceVersion;
  return typeof version === "string" && version !== "" ? version : undefined;
}

/** The object of an ERROR event is a metav1.Status; its code stands for the HTTP status. */
function errorOfEvent(verb: string, object: unknown): KubeError {
  const status = readStatus(object);
  return errorOfStatus(verb, status.code ?? 500, status);
}

const malformed = (message: string): DecodedWatchEvent<never> => ({
  kind: "error",
  error: new KubeError("NOT_JSON", message),
});
