import { joinWithAnd } from "../../../../proto/join-with-and.ts";
import type { Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { ANY_ADDRESS, type HostPort, hostPorts } from "../../../decide/admission/node-usage.ts";
import type { StageKind } from "../../../decide/pod/stage.ts";

/** The kubelet's words about a pod whose host ports are taken. */
const NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports";

/** A pod of the node, and whether something is left of it. */
export interface PortOwner {
  readonly pod: Pod;
  readonly stage: StageKind;
  readonly isRejected: boolean;
}

/**
 * Which pods have the host ports that the pod requests, if the message says that they are taken. Undefined for other messages,
 * and if the pods that had them have ended meanwhile. The status keeps the kubelet's message, because tools match it.
 */
export function explainPortCollision(pod: Pod, message: string, owners: readonly PortOwner[]): string | undefined {
  if (!message.includes(NO_FREE_PORTS)) return undefined;
  const others = owners.filter(
    (other) => other.stage !== "finished" && !other.isRejected && other.pod.metadata.uid !== pod.metadata.uid,
  );
  const taken = hostPorts(pod).flatMap((port) =>
    others
      .filter((other) => hostPorts(other.pod).some((each) => collide(each, port)))
      .map(
        ({ pod: { metadata } }) => `${port.port}/${port.protocol} is taken by ${metadata.namespace}/${metadata.name}`,
      ),
  );
  return taken.length === 0 ? undefined : `hostPort ${joinWithAnd(taken)}`;
}

function collide(a: HostPort, b: HostPort): boolean {
  const haveSameIp = a.ip === b.ip || a.ip === ANY_ADDRESS || b.ip === ANY_ADDRESS;
  return a.port === b.port && a.protocol === b.protocol && haveSameIp;
}
