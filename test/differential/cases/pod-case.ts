import { allContainerStatuses } from "../../../proto/kubernetes/containers.ts";
import type {
  Container,
  PersistentVolumeClaimSpec,
  PersistentVolumeSpec,
  Pod,
  PodSpec,
} from "../../../proto/kubernetes/gen/types.ts";
import { script } from "../../e2e/manifest.ts";
import type { Parametrised } from "../condition-sources.ts";
import { type ViewPart, viewScript } from "../container-view.ts";

/**
 * A pod that runs on each side. It is recorded when it has settled, then deleted, and recorded again when it is gone.
 */
export interface PodCase {
  readonly name: string;
  readonly container?: Partial<Container>;
  readonly spec?: Partial<PodSpec>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  /** Objects of its own, which are there before the pod. Placeholders as in the pod. */
  readonly objects?: readonly ObjectOfCase[];
  /** The claims among them that are bound before the pod is created. */
  readonly boundClaims?: readonly string[];
  /**
   * Whether the pod has settled, so that nothing changes by itself for some seconds. Takes the API's pod and the
   * reasons of its events, each repeated by the event's count.
   */
  readonly until: ((pod: Pod, eventReasons: readonly string[]) => boolean) & Parametrised;
  /** As of `kubectl delete --grace-period`; default: the pod's own. */
  readonly gracePeriodSeconds?: number;
  /** True for a static pod; the test reads its status from its mirror pod. */
  readonly isStatic?: boolean;
  /** The parts of its view that the container must write. An empty part fails the test. */
  readonly viewParts?: readonly ViewPart[];
  /** A change made to the settled pod, and the condition for having settled again. */
  readonly afterwards?: {
    readonly kind:
      | "wait"
      | "apply objects"
      | "annotate"
      | "open gate"
      | "taint the node"
      | "debug"
      | "change the image"
      | "end the sandbox";
    readonly until: ((pod: Pod | undefined) => boolean) & Parametrised;
    /** Arguments of `kubectl debug` after the pod's name. */
    readonly debug?: readonly string[];
    /** The objects to create or to change. */
    readonly objects?: readonly ObjectOfCase[];
    /** The annotation to set, as `NAME=VALUE`. */
    readonly annotation?: string;
  };
}

/** An object that the volumes of a pod refer to, in the pod's namespace if its kind has one. */
export interface ObjectOfCase {
  readonly apiVersion: "v1";
  readonly kind: "ConfigMap" | "Secret" | "PersistentVolume" | "PersistentVolumeClaim";
  readonly metadata: { readonly name: string };
  readonly spec?: PersistentVolumeSpec | PersistentVolumeClaimSpec;
  readonly data?: Readonly<Record<string, string>>;
  readonly stringData?: Readonly<Record<string, string>>;
  readonly binaryData?: Readonly<Record<string, string>>;
  readonly immutable?: boolean;
}

/** Placeholders in pods for values that differ on each side. */
export const REGISTRY = "REGISTRY";
/** The registry that accepts the credentials of the Secrets `private` and `private-older`. */
export const PRIVATE_REGISTRY = "PRIVATE-HUB";
export const NODE_NAME = "NODE-NAME";
/** The namespace, in names that have to be unique in the cluster. */
export const SIDE_NAMESPACE = "SIDE-NAMESPACE";
/** An image of the first registry by its digest; no other container refers to it. */
export const IMAGE_BY_DIGEST = "IMAGE-BY-DIGEST";

/** A folder of each side on its machine, with the folder `folder` and the file `file`. */
export const HOST_FOLDER = "HOST-FOLDER";
/** Folders below it for persistent volumes, each with the file `deep/file`. */
export const HOST_DISKS = [
  "disk",
  "disk-awaited",
  "disk-of-ephemeral",
  "disk-of-group",
  "disk-of-host",
  "disk-of-local",
  "disk-of-mounts",
  "disk-of-readers",
  "disk-of-sub-path",
] as const;
/** A socket of each side on its machine. */
export const HOST_SOCKET = "HOST-SOCKET";

/** Images whose user is a name, and a number. */
export const NAMED_USER_IMAGE = "berth.test/of-sailor:1";
export const NUMERIC_USER_IMAGE = "berth.test/of-number:1";

/** Names the values that a condition has from its maker. */
const withParameters = <F extends (...args: never[]) => boolean>(parameters: readonly unknown[], condition: F) =>
  Object.assign(condition, { parameters });

export const containerStatusOf = ({ status }: Pod, name = "main") =>
  allContainerStatuses(status).find((each) => each.name === name);
const hasPhase = (...phases: readonly string[]) =>
  withParameters(phases, (pod: Pod) => phases.includes(pod.status?.phase ?? ""));
export const hasEnded = hasPhase("Succeeded", "Failed");
/** For a pod that may be gone. */
export const isThereAndHasEnded = (pod: Pod | undefined) => pod !== undefined && hasEnded(pod);

export const isReady = ({ status }: Pod) =>
  status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false;

const waitsFor = (reason: string, name?: string) => (pod: Pod) =>
  containerStatusOf(pod, name)?.state?.waiting?.reason === reason;

/** The pod has not started and its events name the reason more than once, so its status was reported in between. */
export const hasRepeatedEvent = (reason: string) =>
  withParameters(
    [reason],
    (pod: Pod, eventReasons: readonly string[]) =>
      eventReasons.filter((each) => each === reason).length > 1 && containerStatusOf(pod) !== undefined,
  );

/** A container waits for this reason although the sandbox is ready. */
export const waitsWithSandbox = (reason: string, name?: string) =>
  withParameters([reason, name], (pod: Pod) => waitsFor(reason, name)(pod) && pod.status?.podIP !== undefined);

/** A container runs while another one has terminated. */
export const runsBeside = (ended: string, name?: string) =>
  withParameters(
    [ended, name],
    (pod: Pod) =>
      containerStatusOf(pod, ended)?.state?.terminated !== undefined &&
      containerStatusOf(pod, name)?.state?.running !== undefined,
  );

/** The container has terminated or waits in CrashLoopBackOff. */
function isTerminatedOrBackingOff(pod: Pod, name?: string): boolean {
  const { terminated, waiting } = containerStatusOf(pod, name)?.state ?? {};
  return terminated !== undefined || waiting?.reason === "CrashLoopBackOff";
}

/**
 * The container has restarted once and has ended again; it is recorded a second time when the next instance has ended
 * too. The kubelet shows the wait when it is over, right before the restart, or not at all.
 */
export const inCrashLoop = (name?: string): Pick<PodCase, "until" | "afterwards"> => ({
  // A kubelet may report the next start before it has reported the wait.
  until: withParameters(
    [name],
    (pod: Pod) => containerStatusOf(pod, name)?.restartCount === 1 && isTerminatedOrBackingOff(pod, name),
  ),
  afterwards: {
    kind: "wait",
    until: withParameters([name], (pod: Pod | undefined) => {
      const { restartCount = 0 } = (pod && containerStatusOf(pod, name)) ?? {};
      return pod !== undefined && restartCount > 1 && isTerminatedOrBackingOff(pod, name);
    }),
  },
});

/** A pod that runs this script once. */
export function runOnceCase(name: string, text: string, spec: Partial<PodSpec> = {}): PodCase {
  return { name, container: { command: script(text) }, spec: { restartPolicy: "Never", ...spec }, until: hasEnded };
}

/** A pod that writes a view of itself to its termination log. */
export function viewCase(
  name: string,
  viewParts: readonly ViewPart[],
  container: Partial<Container> = {},
  spec: Partial<PodSpec> = {},
): PodCase {
  const own = { command: ["sh", "-c", viewScript(...viewParts), "sh"], ...container };
  return { name, container: own, spec: { restartPolicy: "Never", ...spec }, until: hasEnded, viewParts };
}
