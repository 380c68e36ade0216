import { onAbort } from "../../host/async/abort.ts";
import type { Clock } from "../../host/clock.ts";
import { isCertainlyLater, isNumber } from "../../proto/kubernetes/values/resource-version.ts";
import { KubeError } from "../error.ts";
import { type KubeObject, pathOf, type Resource, type Selector } from "../resource.ts";
import type { KubeConnection } from "../transport/connection.ts";
import { decodeWatchEvent } from "./watch-event.ts";

/**
 * Receives the events of one watch, each with the resourceVersion from which another watch can resume. None of these
 * may throw.
 */
export interface WatchListener<T extends KubeObject> {
  /** The server has answered with a success status. */
  onOpen(): void;
  /** The initial events are complete. Only for a watch without a resourceVersion to start from. */
  onReplaced(objects: readonly T[], resourceVersion: string): void;
  onChanged(kind: "added" | "modified" | "deleted", object: T, resourceVersion: string): void;
  /** A bookmark: nothing else has changed up to this resourceVersion. */
  onBookmark(resourceVersion: string): void;
  /** Events were sent again that the server has sent before; they were skipped. */
  onRepeated(): void;
  /** An event of a type that this release does not know. */
  onUnknownType(type: string): void;
}

type WatchOutcome =
  /** The server ended it after its timeout, as it ends every watch. */
  | { readonly kind: "over" }
  /** No event for too long, not even a bookmark. */
  | { readonly kind: "silent" }
  /** 410: the resourceVersion to start from is too old. */
  | { readonly kind: "gone" }
  /** The server does not support `sendInitialEvents` (WatchList). */
  | { readonly kind: "no initial events"; readonly error: KubeError }
  /** The server sent something that cannot be decoded, or an ERROR event that it cannot continue from there. */
  | { readonly kind: "broken"; readonly error: KubeError }
  | { readonly kind: "failed"; readonly error: KubeError };

export type WatchResult = WatchOutcome & {
  /** How long the response was open. */
  readonly openMs: number;
  /** Whether any event or bookmark arrived after the initial events. */
  readonly hasAdvanced: boolean;
};

export interface WatchDeps {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  /** From 0 up to 1; spreads the ends of many watches. */
  readonly random: () => number;
}

/**
 * An API server sends a bookmark every minute. After a longer silence a new watch resumes at the same resourceVersion,
 * which costs little if only one bookmark was omitted.
 */
const MAX_SILENCE_MS = 75_000;
/** Some servers accept `sendInitialEvents` and never send the bookmark that marks the end of the initial events. */
const MAX_INITIAL_EVENTS_MS = 120_000;
/** If a server or a proxy closes each watch at once, the next watch needs a back-off. */
const MIN_WATCH_MS = 1_000;

/**
 * Runs one watch from its request to its end, starting at the resourceVersion `startVersion`, or with initial events
 * (WatchList) if that is undefined. Resolves with how it ended; never rejects. The listener is not called any more
 * after the signal has aborted.
 */
export async function openWatch<T extends KubeObject>(
  { connection, clock, random }: WatchDeps,
  resource: Resource<T>,
  selector: Selector,
  startVersion: string | undefined,
  listener: WatchListener<T>,
  signal: AbortSignal,
): Promise<WatchResult> {
  const path = pathOf(resource);
  const controller = new AbortController();
  let openedAt: number | undefined;
  let outcome: WatchOutcome | undefined;
  let cancelTimer = () => {};

  const stop = (reason: WatchOutcome) => {
    outcome ??= reason;
    controller.abort();
  };
  const reader = createEventReader(`watch ${path}`, startVersion, listener, stop);
  const armTimer = (ms: number, reason: WatchOutcome) => {
    cancelTimer();
    cancelTimer = clock.wakeAt(clock.now() + ms, () => stop(reason));
  };
  const onOpen = () => {
    openedAt = clock.now();
    listener.onOpen();
    if (reader.isComplete()) armTimer(MAX_SILENCE_MS, { kind: "silent" });
    else
      armTimer(MAX_INITIAL_EVENTS_MS, {
        kind: "no initial events",
        error: closedError(path, "no end of initial events"),
      });
  };
  const onLine = (line: unknown) => {
    if (outcome !== undefined || signal.aborted) return;
    reader.read(line);
    if (reader.isComplete() && outcome === undefined) armTimer(MAX_SILENCE_MS, { kind: "silent" });
  };
  const remove = onAbort(signal, () => controller.abort());
  const query = { ...selector, ...watchQuery(startVersion, random) };
  const error = await connection.lines({ method: "GET", path, query, signal: controller.signal }, onLine, onOpen);
  remove();
  cancelTimer();

  const hasAdvanced = reader.hasAdvanced();
  const openMs = openedAt === undefined ? 0 : clock.now() - openedAt;
  if (outcome !== undefined) return { ...(outcome as WatchOutcome), hasAdvanced, openMs };
  if (error !== undefined) {
    const isRejected = error.code === "INVALID" || error.status === 400 || error.status === 422;
    const isUnsupported = startVersion === undefined && openedAt === undefined && isRejected;
    return { ...(isUnsupported ? { kind: "no initial events", error } : outcomeOf(error)), hasAdvanced, openMs };
  }
  const isNormalEnd = reader.isComplete() && (hasAdvanced || openMs >= MIN_WATCH_MS);
  return isNormalEnd
    ? { kind: "over", hasAdvanced, openMs }
    : { kind: "failed", error: closedError(path, "the API server ended it too early"), hasAdvanced, openMs };
}

function watchQuery(
  startVersion: string | undefined,
  random: () => number,
): Readonly<Record<string, string | undefined>> {
  return {
    watch: "true",
    allowWatchBookmarks: "true",
    timeoutSeconds: String(300 + Math.floor(random() * 301)),
    ...(startVersion === undefined
      ? { sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan" }
      : { resourceVersion: startVersion }),
  };
}

/**
 * Handles the lines of one watch. Initial events are collected until they are complete: a part of them would be a wrong
 * snapshot. After that each event is later than the one before. A proxy that sends old events again must not bring back
 * a deleted object, or an earlier state of another one.
 */
function createEventReader<T extends KubeObject>(
  verb: string,
  startVersion: string | undefined,
  listener: WatchListener<T>,
  stop: (reason: WatchOutcome) => void,
) {
  let initial: Map<string, T> | undefined = startVersion === undefined ? new Map() : undefined;
  let latestVersion = startVersion;
  let hasAdvanced = false;

  /** Versions that cannot be compared count as later. */
  function isRepeated(resourceVersion: string): boolean {
    const areComparable = isNumber(resourceVersion) && isNumber(latestVersion);
    if (areComparable && !isCertainlyLater(resourceVersion, latestVersion)) return true;
    latestVersion = resourceVersion;
    return false;
  }

  function change(kind: "added" | "modified" | "deleted", object: T, resourceVersion: string): void {
    const { namespace = "", name = "" } = object.metadata;
    if (initial === undefined) {
      if (isRepeated(resourceVersion)) {
        listener.onRepeated();
        return;
      }
      hasAdvanced = true;
      listener.onChanged(kind, object, resourceVersion);
    } else if (kind === "deleted") initial.delete(`${namespace}/${name}`);
    else initial.set(`${namespace}/${name}`, object);
  }
  function bookmark(resourceVersion: string, endsInitialEvents: boolean): void {
    if (initial === undefined) {
      hasAdvanced = true;
      // A bookmark may have the version of the last event.
      if (!isCertainlyLater(latestVersion, resourceVersion)) {
        latestVersion = resourceVersion;
        listener.onBookmark(resourceVersion);
      }
    } else if (endsInitialEvents) {
      const objects = [...initial.values()];
      initial = undefined;
      latestVersion = resourceVersion;
      listener.onReplaced(objects, resourceVersion);
    }
  }

  return {
    isComplete: () => initial === undefined,
    hasAdvanced: () => hasAdvanced,
    read(value: unknown): void {
      const line = decodeWatchEvent<T>(verb, value);
      switch (line.kind) {
        case "added":
        case "modified":
        case "deleted":
          change(line.kind, line.object, line.resourceVersion);
          break;
        case "bookmark":
          bookmark(line.resourceVersion, line.endsInitialEvents);
          break;
        case "error":
          stop(outcomeOfEvent(line.error));
          break;
        case "unknown":
          listener.onUnknownType(line.type);
          break;
      }
    },
  };
}

function outcomeOf(error: KubeError): WatchOutcome {
  // Also without a reason, as from a proxy: a relist is always right.
  if (error.code === "GONE" || error.status === 410) return { kind: "gone" };
  const isStartRejected = error.code === "NOT_JSON" || error.code === "TOO_LARGE" || error.code === "INVALID";
  return { kind: isStartRejected ? "broken" : "failed", error };
}

/** The server ends a watch with an ERROR event when it cannot continue from there. */
function outcomeOfEvent(error: KubeError): WatchOutcome {
  const outcome = outcomeOf(error);
  return outcome.kind === "failed" && error.code === "SERVER" ? { kind: "broken", error } : outcome;
}

const closedError = (path: string, reason: string) => new KubeError("CLOSED", `watch ${path}: ${reason}`);
