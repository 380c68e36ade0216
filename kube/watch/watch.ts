import type { Clock } from "../../host/clock.ts";
import { KubeError } from "../error.ts";
import { type KubeObject, pathOf, type Resource, type Selector } from "../resource.ts";
import type { Connection } from "../transport/connection.ts";
import { readWatchLine } from "./watch-event.ts";

/** Who is told of one watch, each time with the place from which another one can go on. None of these may throw. */
export interface WatchListener<T extends KubeObject> {
  /** The server has begun to answer. */
  opened(): void;
  /** The initial events are complete. Only of a watch that began from nothing. */
  replaced(objects: readonly T[], resourceVersion: string): void;
  changed(kind: "added" | "modified" | "deleted", object: T, resourceVersion: string): void;
  /** Nothing has changed up to here. */
  reached(resourceVersion: string): void;
  /** An event of a type that this release does not know. */
  unknown(type: string): void;
}

type Ending =
  /** As every watch ends. */
  | { readonly kind: "over" }
  /** Not a word, not even a bookmark. */
  | { readonly kind: "silent" }
  /** The place where it began is too old. */
  | { readonly kind: "gone" }
  /** The server does not tell everything there is at the beginning of a watch. */
  | { readonly kind: "no initial events"; readonly error: KubeError }
  /** What the server sent cannot be read, or it says itself that it cannot go on from there. */
  | { readonly kind: "broken"; readonly error: KubeError }
  | { readonly kind: "failed"; readonly error: KubeError };

export type WatchEnd = Ending & {
  /** How long the server answered. */
  readonly stoodMs: number;
  /** Whether anything was heard but what was there at its beginning. */
  readonly hasAdvanced: boolean;
};

export interface WatchTools {
  readonly connection: Connection;
  readonly clock: Clock;
  /** From 0 up to 1; spreads the ends of many watches. */
  readonly random: () => number;
}

/** An API server sends a bookmark every minute. Without a word for longer a new watch goes on: if one was only left out, it costs little. */
const LONGEST_SILENCE_MS = 75_000;
/** Some servers take the request for initial events and never say that they are complete. */
const LONGEST_INITIAL_EVENTS_MS = 120_000;
/** A server, or what stands before it, that ends each watch at once must not be asked again at once. */
const SHORTEST_WATCH_MS = 1_000;

/**
 * One watch, from its request to its end: from `from` on, or with initial events if that is undefined. Resolves with how it ended;
 * never rejects. Nothing is told any more once the signal has aborted.
 */
export async function openWatch<T extends KubeObject>(
  { connection, clock, random }: WatchTools,
  resource: Resource<T>,
  selector: Selector,
  from: string | undefined,
  listener: WatchListener<T>,
  signal: AbortSignal,
): Promise<WatchEnd> {
  const path = pathOf(resource);
  const own = new AbortController();
  let openedAt: number | undefined;
  let ending: Ending | undefined;
  let cancelTimer = () => {};

  const stop = (why: Ending) => {
    ending ??= why;
    own.abort();
  };
  const reader = createReader(`watch ${path}`, from === undefined, listener, stop);
  const wait = (ms: number, why: Ending) => {
    cancelTimer();
    cancelTimer = clock.wakeAt(clock.now() + ms, () => stop(why));
  };
  const opened = () => {
    openedAt = clock.now();
    listener.opened();
    if (reader.isComplete()) wait(LONGEST_SILENCE_MS, { kind: "silent" });
    else
      wait(LONGEST_INITIAL_EVENTS_MS, { kind: "no initial events", error: closed(path, "no end of initial events") });
  };
  const onLine = (line: unknown) => {
    if (ending !== undefined || signal.aborted) return;
    reader.read(line);
    if (reader.isComplete() && ending === undefined) wait(LONGEST_SILENCE_MS, { kind: "silent" });
  };
  const onAbort = () => own.abort();
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const query = { ...selector, ...watchQuery(from, random) };
  const error = await connection.lines({ method: "GET", path, query, signal: own.signal }, onLine, opened);
  signal.removeEventListener("abort", onAbort);
  cancelTimer();

  const hasAdvanced = reader.hasAdvanced();
  const stoodMs = openedAt === undefined ? 0 : clock.now() - openedAt;
  if (ending !== undefined) return { ...(ending as Ending), hasAdvanced, stoodMs };
  if (error !== undefined) {
    const isRefused = from === undefined && openedAt === undefined && error.code === "INVALID";
    return { ...(isRefused ? { kind: "no initial events", error } : endingOf(error)), hasAdvanced, stoodMs };
  }
  const isSound = reader.isComplete() && (hasAdvanced || stoodMs >= SHORTEST_WATCH_MS);
  return isSound
    ? { kind: "over", hasAdvanced, stoodMs }
    : { kind: "failed", error: closed(path, "the API server ended it too early"), hasAdvanced, stoodMs };
}

function watchQuery(from: string | undefined, random: () => number): Readonly<Record<string, string | undefined>> {
  return {
    watch: "true",
    allowWatchBookmarks: "true",
    timeoutSeconds: String(300 + Math.floor(random() * 301)),
    ...(from === undefined
      ? { sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan" }
      : { resourceVersion: from }),
  };
}

/** Takes the lines of one watch. Initial events are kept back until they are complete: half of them would be a wrong answer. */
function createReader<T extends KubeObject>(
  verb: string,
  hasInitialEvents: boolean,
  listener: WatchListener<T>,
  stop: (why: Ending) => void,
) {
  let initial: Map<string, T> | undefined = hasInitialEvents ? new Map() : undefined;
  let hasAdvanced = false;

  function change(kind: "added" | "modified" | "deleted", object: T, resourceVersion: string): void {
    const { namespace = "", name = "" } = object.metadata;
    if (initial === undefined) {
      hasAdvanced = true;
      listener.changed(kind, object, resourceVersion);
    } else if (kind === "deleted") initial.delete(`${namespace}/${name}`);
    else initial.set(`${namespace}/${name}`, object);
  }
  function bookmark(resourceVersion: string, endsInitialEvents: boolean): void {
    if (initial === undefined) {
      hasAdvanced = true;
      listener.reached(resourceVersion);
    } else if (endsInitialEvents) {
      const objects = [...initial.values()];
      initial = undefined;
      listener.replaced(objects, resourceVersion);
    }
  }

  return {
    isComplete: () => initial === undefined,
    hasAdvanced: () => hasAdvanced,
    read(value: unknown): void {
      const line = readWatchLine<T>(verb, value);
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
          stop(line.error.code === "SERVER" ? { kind: "broken", error: line.error } : endingOf(line.error));
          break;
        case "unknown":
          listener.unknown(line.type);
          break;
      }
    },
  };
}

function endingOf(error: KubeError): Ending {
  if (error.code === "GONE") return { kind: "gone" };
  const isOfPlace = error.code === "NOT_JSON" || error.code === "TOO_LARGE" || error.code === "INVALID";
  return { kind: isOfPlace ? "broken" : "failed", error };
}

const closed = (path: string, why: string) => new KubeError("CLOSED", `watch ${path}: ${why}`);
