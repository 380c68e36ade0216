import { CriError, formatRpcError } from "../../../../cri/error.ts";
import type { Runtime } from "../../../../cri/runtime.ts";
import { type Container, ContainerState, PodSandboxState } from "../../../../proto/cri/gen/api.ts";
import type { Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { podNameLabel, podNamespaceLabel, podUidLabel } from "../../../../proto/kubernetes/well-known-names.ts";
import { ApiError } from "../api-error.ts";
import { JSON_TYPE, sendJson } from "../api-response.ts";
import type { ApiResponse, Route } from "../route.ts";

/** `/pods`: the pods that the sources list, with their status. */
export function createPodRoutes({ all }: { readonly all: () => readonly Pod[] }): readonly Route[] {
  return [
    {
      pattern: "/pods",
      methods: ["GET"],
      produces: JSON_TYPE,
      handle: async (_request, response) => sendPods(response, all()),
    },
  ];
}

type RunningPods = Pick<Runtime, "listPodSandbox" | "listContainers">;

/** `/runningpods/`: the pods that the runtime runs, with what it knows of them. */
export function createRunningPodRoutes(runtime: RunningPods): readonly Route[] {
  return [
    {
      pattern: "/runningpods/",
      methods: ["GET"],
      produces: JSON_TYPE,
      handle: async (_request, response) => sendPods(response, await runningPods(runtime)),
    },
  ];
}

/** The items have no type of their own, and Go writes an empty list as null, also that of the containers. */
function sendPods(response: ApiResponse, pods: readonly Pod[]): void {
  const items = pods.map(({ apiVersion, kind, spec, status, ...pod }) => ({
    ...pod,
    spec: spec.containers.length === 0 ? { ...spec, containers: null } : spec,
    status: status ?? {},
  }));
  sendJson(response, { kind: "PodList", apiVersion: "v1", metadata: {}, items: items.length === 0 ? null : items });
}

/** Rejects with `ApiError` 500 if the runtime does not answer. Rule: GetPods(all = false) and ToAPIPod of the kubelet. */
async function runningPods(runtime: RunningPods): Promise<readonly Pod[]> {
  try {
    const [sandboxes, containers] = await Promise.all([runtime.listPodSandbox({}), runtime.listContainers({})]);
    const running = containers.filter(({ state }) => state === ContainerState.CONTAINER_RUNNING);
    const ready = sandboxes.filter(({ state }) => state === PodSandboxState.SANDBOX_READY);
    // What has no uid belongs to no pod of a kubelet.
    const byUid = Map.groupBy([...ready, ...running], ({ labels }) => labels[podUidLabel] ?? "");
    byUid.delete("");
    return [...byUid].map(([uid, parts]) => {
      const labels: Readonly<Record<string, string>> = parts[0]?.labels ?? {};
      const own = running.filter((container) => container.labels[podUidLabel] === uid);
      return {
        metadata: { name: labels[podNameLabel] ?? "", namespace: labels[podNamespaceLabel] ?? "", uid },
        spec: { containers: own.map(toContainer) },
      };
    });
  } catch (error) {
    throw error instanceof CriError ? new ApiError(500, formatRpcError(error), { cause: error }) : error;
  }
}

function toContainer({ metadata, image }: Container): Pod["spec"]["containers"][number] {
  return { name: metadata?.name ?? "", image: image?.image ?? "", resources: {} };
}
