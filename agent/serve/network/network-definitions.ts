import { CniError, cniCodes } from "../../../cni/error.ts";
import type { NetworkDefinitions } from "../../../cni/secondary/pod-networks.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasCode, isServerFailure, KubeError } from "../../../kube/error.ts";
import { networkAttachmentDefinitions, pods } from "../../../kube/resource.ts";
import { networkStatusAnnotation } from "../../../proto/kubernetes/well-known-names.ts";

/** Where people find what a node may not do without it. */
const ROLE =
  "the ClusterRole berth:network-attachment-definitions of deploy/network-attachment-definitions.yaml allows it";
const DEADLINE_MS = 10_000;

/** Why a node without an API server attaches no secondary networks; the pod's error shows it. */
export const definitionsOfStandaloneNode: NetworkDefinitions = {
  async read({ namespace, name }) {
    const message = `the pod selects the network ${namespace}/${name}, a NetworkAttachmentDefinition of the API server, and this node has none (--kubeconfig)`;
    throw new CniError(cniCodes.invalidNetworkConf, message);
  },
  async publishStatus() {},
};

/**
 * The NetworkAttachmentDefinitions of a cluster, read when a pod selects one. Rejects with code 11 if the API server does not answer, and
 * with code 7 for what another try would not change, such as a definition that does not exist. The status of a static pod is not
 * written here: `onStaticPod` gets its uid.
 */
export function createNetworkDefinitions(
  kube: Pick<KubeClient, "get" | "patch">,
  onStaticPod: (uid: string) => void,
): NetworkDefinitions {
  return {
    async read({ namespace, name }, signal) {
      const options = { deadlineMs: DEADLINE_MS, signal };
      try {
        const { spec } = await kube.get(networkAttachmentDefinitions(namespace), name, options);
        return { namespace, name, config: spec?.config ?? "" };
      } catch (error) {
        throw toDefinitionError(error, `the pod selects the network ${namespace}/${name}`, signal);
      }
    },
    async publishStatus({ namespace, name, uid, isStatic }, status, signal) {
      if (isStatic) return onStaticPod(uid);
      const body = { metadata: { annotations: { [networkStatusAnnotation]: status } } };
      // A node may not patch its pods, but their status, which takes annotations as well.
      const patch = { type: "merge", subresource: "status", uid, body } as const;
      try {
        await kube.patch(pods(namespace), name, patch, { deadlineMs: DEADLINE_MS, signal });
      } catch (error) {
        if (hasCode(error, "NOT_FOUND", "CONFLICT")) return;
        throw toDefinitionError(error, `cannot write the annotation ${networkStatusAnnotation} of the pod`, signal);
      }
    },
  };
}

function toDefinitionError(error: unknown, what: string, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (!(error instanceof KubeError)) return error;
  const words = error.serverMessage ?? error.message;
  // The server has no document of an API group that it does not serve: its 404 has no reason.
  const isUnserved = error.status === 404 && !hasCode(error, "NOT_FOUND");
  const hint = hasCode(error, "FORBIDDEN")
    ? `; ${ROLE}`
    : isUnserved
      ? "; the cluster has no NetworkAttachmentDefinitions"
      : "";
  const code = isServerFailure(error) && !isUnserved ? cniCodes.tryAgainLater : cniCodes.invalidNetworkConf;
  return new CniError(code, `${what}: ${words}${hint}`, { cause: error });
}
