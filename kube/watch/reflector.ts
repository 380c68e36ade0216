import { type Clock, sleep } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import { isCertainlyLater } from "../../proto/kubernetes/resource-version.ts";
import { createBackOff } from "../back-off.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";
import type { KubeObject, Resource, Selector } from "../resource.ts";
import type { Connection } from "../transport/connection.ts";
import { listAll } from "./list.ts";
import type { Recovery } from "./recovery.ts";
import { openWatch, type WatchEnd, type WatchListener } from "./watch.ts";

/** Who is told of a collection. None of these may throw. */
export interface FollowListener<T extends KubeObject> {
  /**
   * Everything there is, complete; it takes the place of all that was told before. `hasGoneBack`: the server has shown a later state
   * before, so that versions known from then say nothing any more, as after a backup was restored.
   */
  replaced(objects: readonly T[], resourceVersion: string, hasGoneBack: boolean): void;
  changed(kind: "added" | "modified" | "deleted", object: T): void;
  /** The server has said how things are: all there is, a change, or that there was none (a bookmark). */
  heard?(): void;
  /** What was told may be out of date from now on, until `back`. Told again only where the code is another one. */
  away(error: KubeError): void;
  back(): void;
}

export interface FollowTools {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
  readonly recovery: Pick<Recovery, "sleep">;
}

/** After a watch that has stood for so long, the next failure is a first one. Balancers cut what lasts, often after a minute. */
const GOOD_MS = 30_000;
/** The longest that a server may ask us to wait, by Retry-After. */
const LONGEST_REQUESTED_WAIT_MS = 60_000;
/** A server that answers is spared. */
const LONGEST_WAIT_MS = 30_000;
/** One that cannot be reached is not disturbed by an attempt, and is to be found soon when it is back. */
const LONGEST_UNREACHED_WAIT_MS = 2_000;
/** A node's right to see what a pod refers to may come to the API server's authorizer right after the pod has come to the node. */
const FIRST_REFUSED_WAIT_MS = 100;

/** How far a collection is known. */
interface Place {
  /** Where the next watch begins; undefined: everything has to be told anew. */
  resourceVersion: string | undefined;
  /** The furthest that the server has shown since everything was told, also where that is no place to go on from. */
  told: string | undefined;
  /** False once the server has shown that its watches have no initial events. */
  hasInitialEvents: boolean;
  /** How the watch before ended without a step forward, if that is the place's own fault. */
  trouble: "gone" | "broken" | "silent" | undefined;
}

/**
 * Follows a collection until the signal aborts; never rejects.
 *
 *            ┌───── 410, or broken or silent twice at the same place ───┐
 *            ▼                                                          │
 *     nothing known ───► initial events, or a list ───► replaced ───► watch ───► cut, or its time is over
 *                                                                       ▲                   │
 *                                                                       └─ from where it was ┘
 */
export async function follow<T extends KubeObject>(
  tools: FollowTools,
  resource: Resource<T>,
  selector: Selector,
  listener: FollowListener<T>,
  signal: AbortSignal,
): Promise<void> {
  const { log } = tools;
  const place: Place = { resourceVersion: undefined, told: undefined, hasInitialEvents: true, trouble: undefined };
  const pause = createPause(tools);
  const outage = createOutage(listener);
  const told = new Set<string>();
  const reach = (resourceVersion: string) => {
    place.resourceVersion = resourceVersion;
    if (!isCertainlyLater(place.told, resourceVersion)) place.told = resourceVersion;
  };
  const watched: WatchListener<T> = {
    opened() {
      if (place.resourceVersion !== undefined) outage.end();
    },
    replaced(objects, resourceVersion) {
      outage.end();
      const hasGoneBack = isCertainlyLater(place.told, resourceVersion);
      place.resourceVersion = resourceVersion;
      place.told = resourceVersion;
      listener.replaced(objects, resourceVersion, hasGoneBack);
      listener.heard?.();
    },
    changed(kind, object, resourceVersion) {
      reach(resourceVersion);
      listener.changed(kind, object);
      listener.heard?.();
    },
    reached(resourceVersion) {
      reach(resourceVersion);
      listener.heard?.();
    },
    unknown(type) {
      if (!told.has(type)) log.warn({ resource: resource.plural, type }, "skipping watch events of an unknown type");
      told.add(type);
    },
  };

  while (!signal.aborted) {
    const end = await attempt(tools, resource, selector, place, watched, signal);
    if (signal.aborted) return;
    if (end.stoodMs >= GOOD_MS) pause.reset();
    if (end.kind === "no initial events")
      log.info({ resource: resource.plural, err: end.error }, "the API server has no initial events: reading lists");
    if (end.kind === "failed" || end.kind === "broken") outage.begin(end.error);
    if (settle(place, end) === "at once") continue;
    await pause.after(end, signal).catch(() => {
      // The signal has aborted, which the loop sees.
    });
  }
}

/** The wait between two attempts. It ends early where the server is seen to serve others again, but not before it wants us back. */
function createPause({ clock, random, recovery }: FollowTools) {
  const unreached = createBackOff(LONGEST_UNREACHED_WAIT_MS, random);
  const answered = createBackOff(LONGEST_WAIT_MS, random);
  const refused = createBackOff(LONGEST_WAIT_MS, random, FIRST_REFUSED_WAIT_MS);
  const backOffFor = (code: KubeError["code"] | undefined) => {
    if (code === "FORBIDDEN") return refused;
    return code === "UNREACHABLE" || code === "TIMEOUT" ? unreached : answered;
  };
  return {
    reset(): void {
      for (const each of [unreached, answered, refused]) each.reset();
    },
    async after(end: WatchEnd, signal: AbortSignal): Promise<void> {
      const error = end.kind === "failed" ? end.error : undefined;
      const delayMs = backOffFor(error?.code).next();
      const requestedMs = Math.min(error?.retryAfterMs ?? 0, LONGEST_REQUESTED_WAIT_MS);
      if (requestedMs > 0) await sleep(clock, requestedMs, signal);
      if (delayMs > requestedMs) await recovery.sleep(delayMs - requestedMs, signal);
    },
  };
}

/** One watch, and a list before it where one is needed. */
async function attempt<T extends KubeObject>(
  tools: FollowTools,
  resource: Resource<T>,
  selector: Selector,
  place: Place,
  watched: WatchListener<T>,
  signal: AbortSignal,
): Promise<WatchEnd> {
  if (place.resourceVersion === undefined && !place.hasInitialEvents) {
    try {
      const { items, resourceVersion } = await listAll(tools.connection, resource, selector, { signal });
      if (!signal.aborted) watched.replaced(items, resourceVersion);
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      return { kind: "failed", error, stoodMs: 0, hasAdvanced: false };
    }
  }
  return await openWatch(tools, resource, selector, place.resourceVersion, watched, signal);
}

/** Settles where the next attempt begins, and when it may. */
function settle(place: Place, end: WatchEnd): "at once" | "after a while" {
  const trouble = end.hasAdvanced ? undefined : place.trouble;
  switch (end.kind) {
    case "over":
      place.trouble = undefined;
      return "at once";
    case "silent":
      // After a restored backup the place may lie in the future: the server waits for it, and says nothing until then.
      if (trouble === "silent") place.resourceVersion = undefined;
      place.trouble = "silent";
      return "at once";
    case "no initial events":
      place.hasInitialEvents = false;
      return "at once";
    case "gone":
      // A server that forgets faster than we can list would be listed again and again.
      place.resourceVersion = undefined;
      place.trouble = "gone";
      return trouble === "gone" ? "after a while" : "at once";
    case "broken":
      // One object that cannot be sent may stand in the way of all that follow it.
      if (trouble === "broken") place.resourceVersion = undefined;
      place.trouble = "broken";
      return "after a while";
    case "failed":
      place.trouble = trouble;
      return "after a while";
  }
}

/** However many attempts fail in a row for one reason, one is told, and so is their end. */
function createOutage(listener: Pick<FollowListener<KubeObject>, "away" | "back">) {
  let told: KubeErrorCode | undefined;
  return {
    begin(error: KubeError): void {
      if (told !== error.code) listener.away(error);
      told = error.code;
    },
    end(): void {
      if (told !== undefined) listener.back();
      told = undefined;
    },
  };
}
