import { createSemaphore } from "../../../host/async/semaphore.ts";
import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import type { ObservedContainer, ObservedPod } from "../../decide/pod/observed.ts";
import { containerLogPath, podLogDir } from "../../translate/log-path.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { type LimitedLog, type LimitedLogDeps, limitLogSize } from "./limited-log.ts";
import { createLogRotator, type LogRotatorDeps } from "./log-rotator.ts";

/** Keeps the logs of the observed containers below their limit. */
export interface LogRotation {
  onObserved(pod: ObservedPod): void;
  /** Nothing is left of a pod. */
  onPodFinished(uid: PodUid): void;
  /** Resolves when no log is being checked or compressed. */
  settled(): Promise<void>;
  stop(): void;
}

export type LogRotationOptions = Omit<LogRotatorDeps, "workers"> & Omit<LimitedLogDeps, "rotator">;

export function createLogRotation(options: LogRotationOptions): LogRotation {
  const startedAt = options.clock.now();
  const workers = createSemaphore({ permits: options.settings.maxWorkers });
  const deps = { ...options, rotator: createLogRotator({ ...options, workers }) };
  const limited = new Map<PodUid, Map<ContainerId, LimitedLog>>();
  let isStopped = false;

  function startLimit(pod: ObservedPod, container: ObservedContainer): LimitedLog | undefined {
    if (container.state !== "running" && container.state !== "exited") return undefined;
    const path = logPathOf(pod, container);
    if (path === undefined) return undefined;
    const isRunning = container.state === "running";
    const isOlder = container.startedAt < startedAt;
    return limitLogSize(deps, { rotated: { id: container.id, path }, isRunning, isOlder });
  }

  function dropPod(uid: PodUid): void {
    for (const each of limited.get(uid)?.values() ?? []) each.drop();
    limited.delete(uid);
  }

  return {
    onObserved(pod) {
      if (isStopped) return;
      const known = limited.get(pod.uid);
      const present = new Map<ContainerId, LimitedLog>();
      for (const container of pod.containers) {
        const each = known?.get(container.id) ?? startLimit(pod, container);
        if (each !== undefined) present.set(container.id, each);
        if (container.state === "exited" && pod.hasUnconfirmedExit !== true) each?.end();
      }
      for (const [id, each] of known ?? []) if (!present.has(id)) each.drop();
      if (present.size > 0) limited.set(pod.uid, present);
      else limited.delete(pod.uid);
    },
    onPodFinished: dropPod,
    async settled() {
      const all = [...limited.values()].flatMap((logs) => [...logs.values()]);
      await Promise.all(all.map((each) => each.settled()));
    },
    stop() {
      isStopped = true;
      for (const logs of limited.values()) for (const each of logs.values()) each.drop();
    },
  };
}

/** Undefined for labels of another program that are no file names. */
function logPathOf(pod: ObservedPod, { name, attempt }: ObservedContainer): string | undefined {
  if (pod.name === "") return undefined;
  try {
    return `${podLogDir({ metadata: pod })}/${containerLogPath(name, attempt)}`;
  } catch (error) {
    if (error instanceof TranslateError) return undefined;
    throw error;
  }
}
