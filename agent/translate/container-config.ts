import { ContainerConfig, type Signal } from "../../proto/cri/gen/api.ts";
import type { ImageUser } from "../../proto/cri/image-user.ts";
import { toCriSignal } from "../../proto/cri/signal.ts";
import type { ContainerId } from "../../proto/ids.ts";
import { containerAmounts, formatAmounts } from "../../proto/kubernetes/container-amounts.ts";
import type { Container, Pod, PodQOSClass } from "../../proto/kubernetes/gen/types.ts";
import {
  amountsAnnotation,
  containerHashAnnotation,
  containerNameLabel,
  crashesAnnotation,
  podDeletionGracePeriodAnnotation,
  podTerminationGracePeriodAnnotation,
  portsAnnotation,
  preStopAnnotation,
  restartCountAnnotation,
  terminationMessagePathAnnotation,
  terminationMessagePolicyAnnotation,
} from "../../proto/kubernetes/well-known-names.ts";
import { utf8 } from "../../proto/utf8.ts";
import { environmentOf } from "./env/environment.ts";
import type { EnvFiles } from "./env/file-key-ref.ts";
import { createBoundedExpander } from "./env/variable-expansion.ts";
import { containerLogPath } from "./log-path.ts";
import type { NodeFacts } from "./node-facts.ts";
import { containerResources } from "./resources/container-resources.ts";
import { podLabels } from "./sandbox-config.ts";
import { containerSecurityContext, namespacesOfTarget } from "./security/security-context.ts";
import type { IdRange } from "./security/user-namespace.ts";
import { devicesOf } from "./volumes/devices.ts";
import { mountsOf } from "./volumes/mounts.ts";

/**
 * Everything a ContainerConfig is built from: the pod, one of its containers, and what the agent has recorded for this
 * instance.
 */
export interface ContainerConfigInput {
  readonly pod: Pod;
  readonly container: Container;
  readonly attempt: number;
  readonly crashes: number;
  readonly hash: string;
  readonly qosClass: PodQOSClass;
  readonly podIPs: readonly string[];
  readonly imageRef: string;
  /** The references of the images of its volumes, by the name of the volume. */
  readonly volumeImages?: ReadonlyMap<string, string>;
  readonly imageUser: ImageUser;
  /** The container whose process namespace an ephemeral container joins (`targetContainerName`). */
  readonly targetId?: ContainerId;
  /** The files that `fileKeyRef` variables are read from. */
  readonly files: EnvFiles;
  /** The user-namespace ids of a pod with `hostUsers: false`. */
  readonly ids?: IdRange;
  readonly facts: NodeFacts;
}

/** Builds the ContainerConfig of CreateContainer. Throws `TranslateError` for a spec that the node cannot carry out. */
export function containerConfig(input: ContainerConfigInput): ContainerConfig {
  const { pod, container, attempt, imageRef, imageUser, qosClass, facts, targetId, ids } = input;
  const expander = createBoundedExpander(container.name, "CreateContainerConfigError");
  const environment = environmentOf(input, expander);
  return ContainerConfig.fromPartial({
    metadata: { name: container.name, attempt },
    image: { image: imageRef, userSpecifiedImage: container.image ?? "" },
    command: (container.command ?? []).map((arg) => expander.expand(arg, environment)),
    args: (container.args ?? []).map((arg) => expander.expand(arg, environment)),
    workingDir: container.workingDir ?? "",
    envs: [...environment].map(([key, value]) => ({ key, value: utf8(value) })),
    mounts: mountsOf(container, { ...input, environment }),
    devices: devicesOf(container, input),
    labels: { ...podLabels(pod), [containerNameLabel]: container.name },
    annotations: annotationsOf(input),
    logPath: containerLogPath(container.name, attempt),
    stdin: container.stdin === true,
    stdinOnce: container.stdinOnce === true,
    tty: container.tty === true,
    ...stopSignalOf(container, facts),
    linux: {
      resources: containerResources(pod, container, qosClass, facts),
      securityContext: {
        ...containerSecurityContext(pod, container, imageUser, facts, ids),
        ...(targetId === undefined ? {} : { namespaceOptions: namespacesOfTarget(pod, targetId, ids) }),
      },
    },
  });
}

function stopSignalOf({ lifecycle }: Container, facts: NodeFacts): { readonly stopSignal?: Signal } {
  const signal = facts.containerStopSignals ? lifecycle?.stopSignal : undefined;
  return signal === undefined ? {} : { stopSignal: toCriSignal(signal) };
}

/**
 * The kubelet's annotations. A kubelet that replaces this agent reads ports, preStop hook and grace periods from them
 * when it stops a container of an unknown state. Like the kubelet, Berth stops a container of an unknown pod without
 * its hook and with the minimum grace period.
 */
function annotationsOf({ pod, container, attempt, crashes, hash }: ContainerConfigInput): Record<string, string> {
  const { ports = [], lifecycle, terminationMessagePath, terminationMessagePolicy } = container;
  const optional = {
    [portsAnnotation]: ports.length === 0 ? undefined : JSON.stringify(ports),
    [preStopAnnotation]: lifecycle?.preStop && JSON.stringify(lifecycle.preStop),
    [podDeletionGracePeriodAnnotation]: pod.metadata.deletionGracePeriodSeconds?.toString(),
    [podTerminationGracePeriodAnnotation]: pod.spec.terminationGracePeriodSeconds?.toString(),
  };
  return {
    [containerHashAnnotation]: hash,
    [restartCountAnnotation]: String(attempt),
    [crashesAnnotation]: String(crashes),
    [amountsAnnotation]: formatAmounts(containerAmounts(container.resources, pod.spec.resources)),
    [terminationMessagePathAnnotation]: terminationMessagePath ?? "/dev/termination-log",
    [terminationMessagePolicyAnnotation]: terminationMessagePolicy ?? "File",
    ...Object.fromEntries(
      Object.entries(optional).flatMap(([name, text]) => (text === undefined ? [] : [[name, text]])),
    ),
  };
}
