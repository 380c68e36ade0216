import type { Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { Obstacle } from "../decide/plan.ts";
import type { Stage } from "../decide/stage.ts";
import type { Step } from "../decide/step.ts";

/** One pod as `berth pods` shows it. */
export interface PodSummary {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  /** The one word that says most: why it waits, ended or failed. Empty while all is well. */
  readonly reason: string;
  readonly message: string;
  /** `1/2`: containers that are ready, and all. */
  readonly ready: string;
  readonly restarts: number;
  readonly ip: string;
  readonly startTime: string;
  readonly steps: readonly Step[];
  readonly status: PodStatus;
}

export interface PodListing {
  readonly pods: readonly PodSummary[];
}

/** What is known of a pod, put for the eye. */
export function summarize(report: {
  readonly pod: Pod;
  readonly status: PodStatus;
  readonly stage: Stage;
  readonly steps: readonly Step[];
  readonly obstacle: Obstacle | undefined;
}): PodSummary {
  const { pod, status, stage, steps, obstacle } = report;
  const containers = status.containerStatuses ?? [];
  const { reason, message } = whyOf(status, stage, obstacle);
  return {
    namespace: pod.metadata.namespace ?? "",
    name: pod.metadata.name ?? "",
    uid: pod.metadata.uid ?? "",
    phase: status.phase ?? "",
    reason,
    message,
    ready: `${containers.filter(({ ready }) => ready).length}/${pod.spec.containers.length}`,
    restarts: containers.reduce((sum, { restartCount }) => sum + restartCount, 0),
    ip: status.podIP ?? "",
    startTime: status.startTime ?? "",
    steps,
    status,
  };
}

function whyOf(status: PodStatus, stage: Stage, obstacle: Obstacle | undefined): Obstacle {
  if (stage === "terminating" && obstacle !== undefined) return obstacle;
  if (stage === "terminating" && status.phase !== "Failed") return { reason: "Terminating", message: "" };
  if (status.reason !== undefined || status.message !== undefined)
    return { reason: status.reason ?? "", message: status.message ?? "" };
  const states = (status.containerStatuses ?? []).map(({ state }) => state);
  const waiting = states.find((state) => state?.waiting !== undefined)?.waiting;
  const ended = states.find((state) => state?.terminated !== undefined)?.terminated;
  const { reason = "", message = "" } = waiting ?? ended ?? {};
  return { reason, message };
}
