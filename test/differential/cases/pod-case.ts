import { allContainerStatuses } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { script } from "../../e2e/manifest.ts";
import { type ViewPart, viewScript } from "../container-view.ts";

/** A pod that is run on each side, and what its life is there. Once it is settled it is looked at, deleted, and looked at again. */
export interface Play {
  readonly name: string;
  readonly container?: Partial<Container>;
  readonly spec?: Partial<PodSpec>;
  /** When it is settled, by what the API shows and the reasons of its events, each as often as it was told: nothing more happens to it by itself for some seconds. */
  readonly until: (pod: Pod, told: readonly string[]) => boolean;
  /** As `kubectl delete --grace-period` has it; that of the pod if left out. */
  readonly gracePeriodSeconds?: number;
  /** It is a manifest of the node, and is looked at by its mirror. */
  readonly isStatic?: boolean;
  /** What its container has to say of itself, or nothing is compared. */
  readonly seen?: readonly ViewPart[];
  /** What somebody does to it once it is settled, and when it is settled anew. */
  readonly afterwards?: {
    readonly kind: "wait" | "open gate" | "taint the node" | "debug" | "change the image" | "end the sandbox";
    readonly until: (pod: Pod | undefined) => boolean;
    /** What `kubectl debug` is told beside the pod. */
    readonly debug?: readonly string[];
  };
}

/** These stand in a pod for what is another one on each side. */
export const REGISTRY = "REGISTRY";
/** This one lets in whom the Secrets `private` and `private-older` of each namespace name. */
export const PRIVATE_REGISTRY = "PRIVATE-HUB";
export const NODE_NAME = "NODE-NAME";

/** Images of a user who has a name, and of one who has a number. */
export const OF_SAILOR = "berth.test/of-sailor:1";
export const OF_NUMBER = "berth.test/of-number:1";

export const statusOf = ({ status }: Pod, name = "main") =>
  allContainerStatuses(status).find((each) => each.name === name);
const hasPhase =
  (...phases: readonly string[]) =>
  (pod: Pod) =>
    phases.includes(pod.status?.phase ?? "");
export const hasEnded = hasPhase("Succeeded", "Failed");

export const isReady = ({ status }: Pod) =>
  status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false;

const waitsFor = (reason: string, name?: string) => (pod: Pod) =>
  statusOf(pod, name)?.state?.waiting?.reason === reason;

/** It has not begun, and its events have said why more than once: its status was told in between. */
export const isToldOf = (reason: string) => (pod: Pod, told: readonly string[]) =>
  told.filter((each) => each === reason).length > 1 && statusOf(pod) !== undefined;

/** Its sandbox is there, and a container waits all the same. */
export const waitsInPlace = (reason: string, name?: string) => (pod: Pod) =>
  waitsFor(reason, name)(pod) && pod.status?.podIP !== undefined;

/** A container runs while the other one has ended. */
export const runsBeside = (ended: string, name?: string) => (pod: Pod) =>
  statusOf(pod, ended)?.state?.terminated !== undefined && statusOf(pod, name)?.state?.running !== undefined;

/** A container has ended, or waits for its restart. */
function isAtRest(pod: Pod, name?: string): boolean {
  const { terminated, waiting } = statusOf(pod, name)?.state ?? {};
  return terminated !== undefined || waiting?.reason === "CrashLoopBackOff";
}

/**
 * It has restarted once, has ended once more, and is looked at again when the next one has ended too. The kubelet shows the wait when it
 * is over, right before the restart, or not at all.
 */
export const inCrashLoop = (name?: string): Pick<Play, "until" | "afterwards"> => ({
  // A kubelet may tell of the next start before it has told of the wait.
  until: (pod) => statusOf(pod, name)?.restartCount === 1 && isAtRest(pod, name),
  afterwards: {
    kind: "wait",
    until: (pod) => {
      const { restartCount = 0 } = (pod && statusOf(pod, name)) ?? {};
      return pod !== undefined && restartCount > 1 && isAtRest(pod, name);
    },
  },
});

/** A pod that runs this script once. */
export function once(name: string, text: string, spec: Partial<PodSpec> = {}): Play {
  return { name, container: { command: script(text) }, spec: { restartPolicy: "Never", ...spec }, until: hasEnded };
}

/** A pod that tells what it sees of itself. */
export function viewer(
  name: string,
  seen: readonly ViewPart[],
  container: Partial<Container> = {},
  spec: Partial<PodSpec> = {},
): Play {
  const own = { command: ["sh", "-c", viewScript(...seen), "sh"], ...container };
  return { name, container: own, spec: { restartPolicy: "Never", ...spec }, until: hasEnded, seen };
}
