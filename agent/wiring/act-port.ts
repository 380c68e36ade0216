import { CriError } from "../../cri/error.ts";
import { tracedRuntime } from "../../cri/traced-runtime.ts";
import { createKeyedLock } from "../../host/async/keyed-lock.ts";
import { createSemaphore } from "../../host/async/semaphore.ts";
import { type OnFileOperation, withOnOperation } from "../../host/fs/traced-files.ts";
import type { PodUid } from "../../proto/ids.ts";
import { performerOf } from "../act/act.ts";
import { createPodStops } from "../act/hooks/pod-stops.ts";
import { createPullCoalescer } from "../act/images/pull-coalescer.ts";
import { createPullQueue } from "../act/images/pull-queue.ts";
import type { ActDeps, ActInput, ChangedImages } from "../act/performers/performer.ts";
import { createUserNamespaces } from "../act/user-namespaces.ts";
import type { NodeDirs } from "../act/volumes/pod-dirs.ts";
import { type Action, classOf } from "../decide/pod/action.ts";
import type { SyncPorts } from "../loop/ports.ts";
import { STUCK_AFTER_MS } from "../loop/start-limiter.ts";
import type { ObservedImages } from "../observed/image-presence.ts";
import type { PodCache } from "../observed/pods/pod-cache.ts";
import type { AgentOptions } from "./agent.ts";
import type { ClusterSync, PodEventSource } from "./cluster/cluster.ts";
import type { ImageVerifier } from "./image-verifier.ts";
import { createPodEventRecorder } from "./pod-event-recorder.ts";

interface ActPortDeps extends Pick<ImageVerifier, "records" | "providers"> {
  readonly podCache: PodCache;
  readonly images: ObservedImages;
  /** Undefined on a standalone node. */
  readonly clusterSync: Pick<ClusterSync, "ensureFinalStatusSaved"> | undefined;
  readonly podEvents: Pick<PodEventSource, "emit">;
}

/**
 * Performs actions and marks what each one changed, so that it is read again before the next decision. A failed call
 * may have changed anything.
 */
export function createActPort(
  options: AgentOptions,
  { podCache, images, clusterSync, podEvents, records, providers }: ActPortDeps,
): SyncPorts["act"] {
  const { runtime, clock, log, disk, mounts, networkMounts, networkFiles, cgroups, facts, dockerConfigs, idPool } =
    options;
  const pulls = createPullCoalescer(createPullQueue({ clock, ...options.pulls }));
  const userNamespaces = createUserNamespaces(disk.root, idPool);
  const deps = {
    runtime,
    clock,
    log,
    disk,
    mounts,
    networkMounts,
    networkFiles,
    cgroups,
    facts,
    pulls,
    dockerConfigFiles: dockerConfigs,
    providers,
    records,
    userNamespaces,
    stops: createPodStops(clock),
    recordEvent: createPodEventRecorder(log, podEvents),
    readyMounts: new Set<string>(),
    lockPath: createKeyedLock<string>(),
  };
  const teardowns = createSemaphore({ permits: options.startSlots, stuckAfter: { clock, ms: STUCK_AFTER_MS } });
  const perform = (input: ActInput, action: Action, signal: AbortSignal) => {
    const performer = performerOf(action);
    const actDeps = tracedDeps(deps, options.traces, input.uid, action);
    const work = () => performer.perform(actDeps, input, action, signal);
    if (performer.teardown === undefined) return work();
    return teardowns.run(work, signal, () => performer.teardown === "urgent");
  };
  const inspectAgain = (changed: ChangedImages = "none") => {
    if (changed === "all") images.invalidate();
    else if (changed !== "none") images.invalidate(changed.image);
  };
  return async (uid, desired, observed, action, { signal, onStarted }) => {
    const performer = performerOf(action);
    if (performer.needsSavedStatus) await clusterSync?.ensureFinalStatusSaved(uid);
    const stopping = performer.stopping?.(action);
    podCache.beginMutation(uid, stopping);
    try {
      const output = await perform({ uid, desired, observed, onStarted }, action, signal);
      const effect = performer.effect(action, output, { pod: desired?.pod, now: clock.now() });
      podCache.endMutation(uid, effect, stopping);
      inspectAgain(performer.changedImages?.(action, true));
      return output;
    } catch (error) {
      podCache.endMutation(uid, { kind: isUnanswered(action, error) ? "unanswered" : "everything" }, stopping);
      inspectAgain(performer.changedImages?.(action, false));
      throw error;
    }
  };
}

/**
 * Returns what this action works with. The calls of a start to the runtime carry the span of the action. If the start is traced, spans
 * below that one show what the action does before it calls the runtime.
 */
function tracedDeps(deps: ActDeps, traces: AgentOptions["traces"], uid: PodUid, action: Action): ActDeps {
  const traceparent = traces?.traceparent(uid, action);
  if (traceparent === undefined) return deps;
  const spans = traces?.actionSpans(uid, action);
  const runtime = tracedRuntime(deps.runtime, { traceparent, onCall: spans?.onRuntimeCall });
  return { ...deps, runtime, ...(spans && { disk: tracedDirs(deps.disk, spans.onFileOperation) }) };
}

/**
 * Returns the same directories, and reports each operation on the pod's own files. The agent reads and writes its records, its user ids
 * and Docker's configuration by other `Files`, which report nothing.
 */
const tracedDirs = ({ root, logs, machine }: NodeDirs, onOperation: OnFileOperation): NodeDirs => ({
  root: withOnOperation(root, onOperation),
  logs: withOnOperation(logs, onOperation),
  machine: withOnOperation(machine, onOperation),
});

/** Whether a call to the runtime that starts something has ended without an answer. After an outage all is listed. */
function isUnanswered(action: Action, error: unknown): boolean {
  const hasEnded = error instanceof CriError && (error.code === "CANCELLED" || error.code === "DEADLINE_EXCEEDED");
  return hasEnded && classOf(action) === "start";
}
