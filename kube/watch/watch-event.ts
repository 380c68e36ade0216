import { errorOfStatus, KubeError, readStatus } from "../error.ts";
import type { KubeObject } from "../resource.ts";
import { isObject } from "./list.ts";

/** What a line of a watch says. */
export type WatchLine<T extends KubeObject> =
  | { readonly kind: "added" | "modified" | "deleted"; readonly object: T; readonly resourceVersion: string }
  /** Nothing has changed up to here. */
  | { readonly kind: "bookmark"; readonly resourceVersion: string; readonly endsInitialEvents: boolean }
  /** The server gives up this watch, or it has sent what no server should. */
  | { readonly kind: "error"; readonly error: KubeError }
  | { readonly kind: "unknown"; readonly type: string };

const CHANGES = { ADDED: "added", MODIFIED: "modified", DELETED: "deleted" } as const;
const isChange = (type: string): type is keyof typeof CHANGES => Object.hasOwn(CHANGES, type);

/** Reads one line of a watch, which has been parsed as JSON and nothing more. `verb` names the request in errors. Total. */
export function readWatchLine<T extends KubeObject>(verb: string, line: unknown): WatchLine<T> {
  const { type, object } = (line ?? {}) as { readonly type?: unknown; readonly object?: unknown };
  if (typeof type !== "string") return broken(`${verb}: a line that is no event of a watch`);
  if (type === "ERROR") return { kind: "error", error: errorOfEvent(verb, object) };
  if (type === "BOOKMARK") return readBookmark(verb, object);
  if (!isChange(type)) return { kind: "unknown", type };
  const resourceVersion = versionOf(object);
  if (resourceVersion === undefined || !isObject(object))
    return broken(`${verb}: a change of something without a name`);
  // The server's schema says what it is; fields of a newer one are kept as they are.
  return { kind: CHANGES[type], object: object as unknown as T, resourceVersion };
}

function readBookmark(verb: string, object: unknown): WatchLine<never> {
  const resourceVersion = versionOf(object);
  if (resourceVersion === undefined) return broken(`${verb}: a bookmark without a resourceVersion`);
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

/** The object of an ERROR event is a metav1.Status; its code is what the status line would have been. */
function errorOfEvent(verb: string, object: unknown): KubeError {
  const status = readStatus(object);
  return errorOfStatus(verb, status.code ?? 500, status);
}

const broken = (why: string): WatchLine<never> => ({ kind: "error", error: new KubeError("NOT_JSON", why) });
