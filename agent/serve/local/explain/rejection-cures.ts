import { joinWithAnd } from "../../../../proto/join-with-and.ts";
import { type CauseInput, type Cure, type CureRule, isStatic } from "./cure-rule.ts";
import { cureInPod, cureInPodOrNode } from "./replaced-pod.ts";
import { shortageCure } from "./shortage-cure.ts";

const describeNode = ({ pod: { spec } }: CauseInput) => `kubectl describe node ${spec.nodeName ?? ""}`.trimEnd();

function selectionCure(input: CauseInput): Cure {
  const { nodeSelector = {}, affinity } = input.pod.spec;
  const labels = Object.entries(nodeSelector).map(([key, value]) => `${key}=${value}`);
  const fields = [
    ...(labels.length > 0 ? [`nodeSelector (${labels.join(",")})`] : []),
    ...(affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution === undefined ? [] : ["nodeAffinity"]),
  ];
  const text = `correct the pod's ${joinWithAnd(fields) || "nodeSelector"}`;
  if (isStatic(input))
    return cureInPodOrNode(
      input,
      `${text}, or give the node such labels: --node-labels${labels.length > 0 ? `=${labels.join(",")}` : ""} of the agent, or kubectl label in a cluster`,
    );
  const { nodeName = "NODE" } = input.pod.spec;
  const label = labels.length === 0 ? [] : [`kubectl label node ${nodeName} ${labels.join(" ")}`];
  return cureInPodOrNode(
    input,
    `${text}, give the node such labels, or run the pod on another node`,
    `kubectl get node ${nodeName} --show-labels`,
    ...label,
  );
}

/** The cures of pods that the node has rejected, or that have ended. The first rule whose reason and message match counts. */
export const rejectionRules: readonly CureRule[] = [
  { reason: /^OutOf/, cure: shortageCure },
  // Static pods are critical, and a critical pod that does not fit has this message.
  {
    reason: /^UnexpectedAdmissionError$/,
    message: /no set of running pods found to reclaim resources/,
    cure: shortageCure,
  },
  { reason: /^NodeAffinity$/, cure: selectionCure },
  {
    reason: /^NodeName$/,
    cure: (input) => cureInPod(input, `remove spec.nodeName (${input.pod.spec.nodeName}): this node has another name`),
  },
  {
    reason: /^NodePorts$/,
    cure: (input) => cureInPodOrNode(input, "use another hostPort, or end the pod that has it", "berth pods"),
  },
  {
    reason: /^TaintToleration$/,
    cure: (input) =>
      cureInPodOrNode(
        input,
        "add tolerations of the node's NoExecute taints, or remove the taints",
        describeNode(input),
      ),
  },
  {
    reason: /^AppArmor$/,
    cure: (input) =>
      cureInPodOrNode(
        input,
        "remove appArmorProfile, or enable AppArmor in the node's kernel (apparmor=1 security=apparmor)",
      ),
  },
  {
    reason: /^SysctlForbidden$/,
    message: /sysctl: "([^"]*)" not allowlisted/,
    cure: (input, [, name = ""]) =>
      cureInPodOrNode(
        input,
        `remove ${name} from securityContext.sysctls, or allow it in the agent's configuration (allowedUnsafeSysctls: ["${name}"])`,
      ),
  },
  {
    reason: /^SysctlForbidden$/,
    message: /sysctl: "([^"]*)" not allowed with host (\w+)/,
    cure: (input, [, name = "", namespace]) =>
      cureInPod(
        input,
        `remove ${name} from securityContext.sysctls, or ${namespace === "Net" ? "hostNetwork" : "hostIPC"}`,
      ),
  },
  {
    reason: /^PodOS/,
    cure: (input) => cureInPod(input, "this is a Linux node: correct spec.os, or the pod's label kubernetes.io/os"),
  },
  {
    reason: /^SupplementalGroupsPolicyNotSupported$/,
    cure: (input) =>
      cureInPodOrNode(
        input,
        "remove supplementalGroupsPolicy: Strict, or install containerd 2 or later",
        "berth doctor",
      ),
  },
  {
    reason: /^(PodFeatureUnsupported|UnsupportedFeature)$/,
    cure: (input) => cureInPod(input, "remove what the message names: this node does not run pods with it"),
  },
  {
    reason: /^(NodeUnschedulable|\w*NotSupported|UnexpectedAdmissionError|NodeShutdown)$/,
    cure: (input) =>
      isStatic(input)
        ? cureInPodOrNode(input, "this node rejects the pod: change what the message names")
        : cureInPodOrNode(
            input,
            "this node rejects the pod: change what the message names, or run it on another node",
            describeNode(input),
          ),
  },
  {
    reason: /^(Evicted|Preempting|DeadlineExceeded)$/,
    cure: (input) => cureInPod(input, "the pod has ended and is not started again"),
  },
];
