import { createBackoffCounter } from "../../host/async/backoff.ts";
import { createLogOnce } from "../../host/async/log-once.ts";
import { type Clock, sleep } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import { isCertainlyLater } from "../../proto/kubernetes/values/resource-version.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";
import type { KubeObject, Resource, Selector } from "../resource.ts";
import type { KubeConnection } from "../transport/connection.ts";
import { listAll } from "./list.ts";
import type { Recovery } from "./recovery.ts";
import { openWatch, type WatchListener, type WatchResult } from "./watch.ts";

/** Receives the state of a collection. None of these may throw. */
export interface ReflectorListener<T extends KubeObject> {
  /**
   * A complete snapshot, which replaces all earlier state. `isRolledBack`: the server has shown a later
   * resourceVersion before, so that resourceVersions known from then must not be compared any more; this happens when
   * an etcd backup was restored.
   */
  onReplaced(objects: readonly T[], resourceVersion: string, isRolledBack: boolean): void;
  onChanged(kind: "added" | "modified" | "deleted", object: T): void;
  /** The state is up to date at this moment: after a snapshot, a change or a bookmark. */
  onSynced?(): void;
  /**
   * From now on, until `onRecovered`, the state may be out of date. Called again only when the error's code has
   * changed.
   */
  onOutage(error: KubeError): void;
  onRecovered(): void;
}

export interface ReflectorDeps {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
  readonly recovery: Pick<Recovery, "sleep">;
}

/**
 * A watch that was open for so long resets the back-off. Load balancers often cut long-running responses after a
 * minute.
 */
const RESET_BACKOFF_AFTER_MS = 30_000;
/** The upper bound for the server's Retry-After. */
const MAX_RETRY_AFTER_MS = 60_000;
const INITIAL_BACKOFF_MS = 1_600;
/** The longest back-off for a server that answers with errors. */
const MAX_BACKOFF_MS = 30_000;
/**
 * The longest back-off after the server has ended a watch, such as by a 410, or after an event that cannot be read. It is
 * short because no change is seen meanwhile, and because the success of other requests does not show that a watch would
 * succeed.
 */
const MAX_RELIST_BACKOFF_MS = 8_000;
/**
 * The longest back-off for an unreachable server: attempts put no load on it, and its return should be noticed soon.
 */
const MAX_UNREACHABLE_BACKOFF_MS = 2_000;
/**
 * The first back-off after a 403: the node authorizer may learn that the pod is on this node shortly after the node
 * does.
 */
const INITIAL_FORBIDDEN_BACKOFF_MS = 100;

/** Where the reflector resumes. */
interface ResumePoint {
  /** The resourceVersion at which the next watch starts; undefined: a relist is needed. */
  resourceVersion: string | undefined;
  /** The latest resourceVersion received since the last relist, even if a watch cannot resume from it. */
  latestResourceVersion: string | undefined;
  /** False once the server has shown that it does not support initial events (WatchList). */
  hasInitialEvents: boolean;
  /** How the previous watch ended without progress, if the resume point itself may be the cause. */
  lastFailure: "gone" | "broken" | "silent" | undefined;
}

/**
 * A reflector (client-go): lists and watches a collection until the signal aborts; never rejects.
 *
 *       ┌── 410, or broken or silent twice at the same version ───────────┐
 *       ▼                                                                 │
 *     relist ──► initial events (WatchList), or a list ──► replaced ──► watch ──► cut, or timed out
 *                                                                         ▲           │
 *                                                                         └─ resumes ─┘
 */
export async function runReflector<T extends KubeObject>(
  deps: ReflectorDeps,
  resource: Resource<T>,
  selector: Selector,
  listener: ReflectorListener<T>,
  signal: AbortSignal,
): Promise<void> {
  const { log } = deps;
  const resumePoint: ResumePoint = {
    resourceVersion: undefined,
    latestResourceVersion: undefined,
    hasInitialEvents: true,
    lastFailure: undefined,
  };
  const retryDelay = createRetryDelay(deps);
  const outage = createOutageReporter(listener);
  const loggedTypes = createLogOnce();
  const advanceTo = (resourceVersion: string) => {
    resumePoint.resourceVersion = resourceVersion;
    if (!isCertainlyLater(resumePoint.latestResourceVersion, resourceVersion))
      resumePoint.latestResourceVersion = resourceVersion;
  };
  const watchListener: WatchListener<T> = {
    onOpen() {
      if (resumePoint.resourceVersion !== undefined) outage.end();
    },
    onReplaced(objects, resourceVersion) {
      outage.end();
      const isRolledBack = isCertainlyLater(resumePoint.latestResourceVersion, resourceVersion);
      resumePoint.resourceVersion = resourceVersion;
      resumePoint.latestResourceVersion = resourceVersion;
      listener.onReplaced(objects, resourceVersion, isRolledBack);
      listener.onSynced?.();
    },
    onChanged(kind, object, resourceVersion) {
      advanceTo(resourceVersion);
      listener.onChanged(kind, object);
      listener.onSynced?.();
    },
    onBookmark(resourceVersion) {
      advanceTo(resourceVersion);
      listener.onSynced?.();
    },
    onRepeated() {
      if (loggedTypes.shouldLog("repeated"))
        log.warn(
          { resource: resource.plural },
          "skipping watch events that the API server has sent before; a proxy may repeat them",
        );
    },
    onUnknownType(type) {
      if (loggedTypes.shouldLog(type))
        log.warn({ resource: resource.plural, type }, "skipping watch events of an unknown type");
    },
  };

  while (!signal.aborted) {
    const end = await listAndWatchOnce(deps, resource, selector, resumePoint, watchListener, signal);
    if (signal.aborted) return;
    if (end.openMs >= RESET_BACKOFF_AFTER_MS) retryDelay.reset();
    if (end.hasAdvanced) retryDelay.resetRelist();
    if (end.kind === "no initial events")
      log.info(
        { resource: resource.plural, err: end.error },
        "the API server does not support initial events: falling back to list and watch",
      );
    if (end.kind === "failed" || end.kind === "broken") outage.begin(end.error);
    if (updateResumePoint(resumePoint, end) === "at once") continue;
    await retryDelay.after(end, signal).catch(() => {
      // The signal has aborted: the loop ends.
    });
  }
}

/**
 * The back-off between two attempts. It ends early when the server has recovered, but not before the server's
 * Retry-After.
 */
function createRetryDelay({ clock, random, recovery }: ReflectorDeps) {
  const jitter = { from: 0.5, to: 1, random };
  const unreachable = createBackoffCounter({
    initialMs: INITIAL_BACKOFF_MS,
    maxMs: MAX_UNREACHABLE_BACKOFF_MS,
    jitter,
  });
  const serverError = createBackoffCounter({ initialMs: INITIAL_BACKOFF_MS, maxMs: MAX_BACKOFF_MS, jitter });
  const relist = createBackoffCounter({ initialMs: INITIAL_BACKOFF_MS, maxMs: MAX_RELIST_BACKOFF_MS, jitter });
  const forbidden = createBackoffCounter({ initialMs: INITIAL_FORBIDDEN_BACKOFF_MS, maxMs: MAX_BACKOFF_MS, jitter });
  const backoffFor = (code: KubeError["code"] | undefined) => {
    if (code === undefined) return relist;
    if (code === "FORBIDDEN") return forbidden;
    return code === "UNREACHABLE" || code === "TIMEOUT" ? unreachable : serverError;
  };
  return {
    reset(): void {
      for (const each of [unreachable, serverError, relist, forbidden]) each.reset();
    },
    /** A watch has received events since the last relist: the back-off begins again. */
    resetRelist: relist.reset,
    async after(end: WatchResult, signal: AbortSignal): Promise<void> {
      const error = end.kind === "failed" ? end.error : undefined;
      const delayMs = backoffFor(error?.code).next();
      const requestedMs = Math.min(error?.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS);
      if (requestedMs > 0) await sleep(clock, requestedMs, signal);
      if (delayMs > requestedMs) await recovery.sleep(delayMs - requestedMs, signal);
    },
  };
}

/** Runs one watch, after a list if one is needed. */
async function listAndWatchOnce<T extends KubeObject>(
  deps: ReflectorDeps,
  resource: Resource<T>,
  selector: Selector,
  resumePoint: ResumePoint,
  watchListener: WatchListener<T>,
  signal: AbortSignal,
): Promise<WatchResult> {
  if (resumePoint.resourceVersion === undefined && !resumePoint.hasInitialEvents) {
    try {
      const { items, resourceVersion } = await listAll(deps.connection, resource, selector, { signal });
      if (!signal.aborted) watchListener.onReplaced(items, resourceVersion);
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      return { kind: "failed", error, openMs: 0, hasAdvanced: false };
    }
  }
  return await openWatch(deps, resource, selector, resumePoint.resourceVersion, watchListener, signal);
}

/** Updates the resume point after a watch has ended. Returns whether the next attempt needs a back-off. */
function updateResumePoint(resumePoint: ResumePoint, end: WatchResult): "at once" | "after a while" {
  const lastFailure = end.hasAdvanced ? undefined : resumePoint.lastFailure;
  switch (end.kind) {
    case "over":
      resumePoint.lastFailure = undefined;
      return "at once";
    case "silent":
      // After a restored backup the resourceVersion may lie in the future: the server then sends nothing until it is
      // reached.
      if (lastFailure === "silent") resumePoint.resourceVersion = undefined;
      resumePoint.lastFailure = "silent";
      return "at once";
    case "no initial events":
      resumePoint.hasInitialEvents = false;
      return "at once";
    case "gone":
      // If the server compacts faster than we can list, relisting without a back-off would never end.
      resumePoint.resourceVersion = undefined;
      resumePoint.lastFailure = "gone";
      return lastFailure === "gone" ? "after a while" : "at once";
    case "broken":
      // One event that the server cannot send would block all later ones: skip it by a relist.
      if (lastFailure === "broken") resumePoint.resourceVersion = undefined;
      resumePoint.lastFailure = "broken";
      return "after a while";
    case "failed":
      resumePoint.lastFailure = lastFailure;
      return "after a while";
  }
}

/** Reports an outage once per error code, however many attempts fail in a row, and reports its end. */
function createOutageReporter(listener: Pick<ReflectorListener<KubeObject>, "onOutage" | "onRecovered">) {
  let reportedCode: KubeErrorCode | undefined;
  return {
    begin(error: KubeError): void {
      if (reportedCode !== error.code) listener.onOutage(error);
      reportedCode = error.code;
    },
    end(): void {
      if (reportedCode !== undefined) listener.onRecovered();
      reportedCode = undefined;
    },
  };
}
