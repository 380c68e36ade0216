import { CriError, formatRpcError } from "../../../../cri/error.ts";
import type { Runtime } from "../../../../cri/runtime.ts";
import type { Clock } from "../../../../host/clock.ts";
import type { Files } from "../../../../host/fs/files.ts";
import { ContainerState } from "../../../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid } from "../../../../proto/ids.ts";
import { allContainers } from "../../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../../proto/kubernetes/values/time.ts";
import { ApiError } from "../api-error.ts";
import { JSON_TYPE, sendJson } from "../api-response.ts";
import type { Route } from "../route.ts";

export interface CheckpointRouteDeps {
  readonly findPod: (namespace: string, name: string) => Pod | undefined;
  readonly runtime: Pick<Runtime, "listContainers"> & {
    checkpointContainer(id: ContainerId, location: string, timeoutSeconds: number): Promise<void>;
  };
  /** Rooted at the root directory. */
  readonly root: Pick<Files, "makeFolder" | "path">;
  readonly clock: Pick<Clock, "now">;
}

const FOLDER = "checkpoints";

/** `/checkpoint/NAMESPACE/POD/CONTAINER`: the runtime writes the state of a container into a file of the node. Rule: `checkpoint` of the kubelet's server. */
export function createCheckpointRoutes({ findPod, runtime, root, clock }: CheckpointRouteDeps): readonly Route[] {
  async function checkpoint(pod: Pod, container: string, timeoutSeconds: number): Promise<string> {
    const { namespace, name, uid } = pod.metadata;
    const containers = await runtime.listContainers({ podUid: uid as PodUid });
    const running = containers.find(
      ({ metadata, state }) => metadata?.name === container && state === ContainerState.CONTAINER_RUNNING,
    );
    if (running === undefined) throw new Error(`container ${container} not found`);
    const file = `checkpoint-${name}_${namespace}-${container}-${formatTime(clock.now())}.tar`;
    await root.makeFolder(FOLDER, 0o700);
    const location = root.path(FOLDER, file);
    await runtime.checkpointContainer(running.id as ContainerId, location, timeoutSeconds);
    return location;
  }

  return [
    {
      pattern: "/checkpoint/{namespace}/{pod}/{container}",
      methods: ["POST"],
      produces: JSON_TYPE,
      async handle({ params, query }, response) {
        const { namespace = "", pod: name = "", container = "" } = params;
        const pod = findPod(namespace, name);
        if (pod === undefined) throw new ApiError(404, "pod does not exist");
        if (!hasContainer(pod, container)) throw new ApiError(404, `container ${container} does not exist`);
        const timeout = query.getAll("timeout").at(-1) ?? "0";
        if (!/^[+-]?\d{1,15}$/.test(timeout)) throw new ApiError(404, "cannot parse value of timeout parameter");
        try {
          sendJson(response, { items: [await checkpoint(pod, container, Number(timeout))] });
        } catch (error) {
          const reason = error instanceof CriError ? formatRpcError(error) : String((error as Error).message);
          throw new ApiError(500, `checkpointing of ${namespace}/${name}/${container} failed (${reason})`, {
            cause: error,
          });
        }
      },
    },
  ];
}

const hasContainer = ({ spec }: Pod, name: string): boolean =>
  allContainers(spec).some((container) => container.name === name);
