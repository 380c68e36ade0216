import { ContainerConfig, type Signal } from "../../proto/cri/gen/api.ts";
import type { ImageUser } from "../../proto/cri/image-user.ts";
import { criSignalOf } from "../../proto/cri/signal.ts";
import type { ContainerId } from "../../proto/ids.ts";
import type { Container, Pod, PodQOSClass } from "../../proto/kubernetes/gen/types.ts";
import {
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
import { createPortion } from "./env/variable-expansion.ts";
import { containerLogPath } from "./log-path.ts";
import type { NodeFacts } from "./node-facts.ts";
import { containerResources } from "./resources/container-resources.ts";
import { podLabels } from "./sandbox-config.ts";
import { containerSecurityContext, namespacesWith } from "./security/security-context.ts";
import type { IdRange } from "./security/user-namespace.ts";
import { mountsOf } from "./volumes/mounts.ts";

/** What a container's message is made of besides the pod. */
export interface ContainerScene {
  readonly pod: Pod;
  readonly container: Container;
  readonly attempt: number;
  readonly crashes: number;
  readonly hash: string;
  readonly qosClass: PodQOSClass;
  readonly podIPs: readonly string[];
  readonly imageRef: string;
  readonly imageUser: ImageUser;
  /** The container whose processes it is to see, where it asks for another one's. */
  readonly targetId?: ContainerId;
  /** The files from which it takes variables. */
  readonly files: EnvFiles;
  /** Those of a pod with users of its own. */
  readonly ids?: IdRange;
  readonly facts: NodeFacts;
}

/** A container as the message of CreateContainer. Throws `TranslateError` where the spec cannot be carried out. */
export function containerConfig(scene: ContainerScene): ContainerConfig {
  const { pod, container, attempt, imageRef, imageUser, qosClass, facts, targetId, ids } = scene;
  const portion = createPortion(container.name, "CreateContainerConfigError");
  const environment = environmentOf(scene, portion);
  return ContainerConfig.fromPartial({
    metadata: { name: container.name, attempt },
    image: { image: imageRef, userSpecifiedImage: container.image ?? "" },
    command: (container.command ?? []).map((word) => portion.expand(word, environment)),
    args: (container.args ?? []).map((word) => portion.expand(word, environment)),
    workingDir: container.workingDir ?? "",
    envs: [...environment].map(([key, value]) => ({ key, value: utf8(value) })),
    mounts: mountsOf(container, scene),
    labels: { ...podLabels(pod), [containerNameLabel]: container.name },
    annotations: annotationsOf(scene),
    logPath: containerLogPath(container.name, attempt),
    stdin: container.stdin === true,
    stdinOnce: container.stdinOnce === true,
    tty: container.tty === true,
    ...stopSignalOf(container, facts),
    linux: {
      resources: containerResources(pod, container, qosClass, facts),
      securityContext: {
        ...containerSecurityContext(pod, container, imageUser, facts, ids),
        ...(targetId === undefined ? {} : { namespaceOptions: namespacesWith(pod, targetId, ids) }),
      },
    },
  });
}

function stopSignalOf({ lifecycle }: Container, facts: NodeFacts): { readonly stopSignal?: Signal } {
  const signal = facts.containerStopSignals ? lifecycle?.stopSignal : undefined;
  return signal === undefined ? {} : { stopSignal: criSignalOf(signal) };
}

/**
 * Ports, hook and graces are for a kubelet that may have the node after us, which reads them where it removes a container of a state that
 * nobody knows. Here, as with the kubelet, what nobody asks for any more is stopped without its hook and with the shortest grace.
 */
function annotationsOf({ pod, container, attempt, crashes, hash }: ContainerScene): Record<string, string> {
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
    [terminationMessagePathAnnotation]: terminationMessagePath ?? "/dev/termination-log",
    [terminationMessagePolicyAnnotation]: terminationMessagePolicy ?? "File",
    ...Object.fromEntries(
      Object.entries(optional).flatMap(([name, text]) => (text === undefined ? [] : [[name, text]])),
    ),
  };
}
