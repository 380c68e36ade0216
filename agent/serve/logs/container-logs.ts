import { CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import { ContainerState } from "../../../proto/cri/gen/api.ts";
import { quoteGo } from "../../../proto/go-quote.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { ApiError } from "../api/api-error.ts";
import type { ApiResponse } from "../api/route.ts";
import type { ContainerEnds } from "./container-ends.ts";
import { instanceWithLogs } from "./container-instance.ts";
import { LogFormatError } from "./cri-log-lines.ts";
import { followLog } from "./follow-log.ts";
import type { LogOptions } from "./log-options.ts";
import { createReadBlocks } from "./read-blocks.ts";

export interface ContainerLogsDeps {
  readonly runtime: Pick<Runtime, "containerStatus">;
  /** Rooted at the directory of the pods' logs. */
  readonly logs: Pick<Files, "root" | "open" | "watch">;
  readonly clock: Clock;
  /** The pod of this name, with the latest status that the agent has decided. */
  readonly findPod: (namespace: string, name: string) => Pod | undefined;
  readonly ends: Pick<ContainerEnds, "waitFor">;
  /** The feature gate PodLogsQuerySplitStreams. */
  readonly splitsStreams: boolean;
}

export interface LogRequest {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly options: LogOptions;
  /** Aborts when the client goes away, or the agent stops. */
  readonly signal: AbortSignal;
}

/** Sends the log of a container to a client. */
export interface ContainerLogs {
  /**
   * Throws `ApiError` before it has sent anything: 404 for an unknown pod or container, 400 for a container without a log;
   * and `UnreadableLogError` after it has started the answer.
   */
  send(request: LogRequest, response: ApiResponse): Promise<void>;
}

/** Rules: kubelet getContainerLogs, GetKubeletContainerLogs and GetContainerLogs. */
export function createContainerLogs(deps: ContainerLogsDeps): ContainerLogs {
  const readers = { ...deps, blocks: createReadBlocks(deps.clock) };
  return {
    async send(request, response) {
      const { uid, instance } = findInstance(deps, request);
      response.start(200);
      await sendLog(readers, uid, instance, request, response);
      response.end();
    },
  };
}

/** A log cannot be read. The message is for the client. */
export class UnreadableLogError extends Error {
  override readonly name = "UnreadableLogError";
}

type ExistingInstance = Exclude<ReturnType<typeof instanceWithLogs>, { readonly problem: string }>;

function findInstance(
  { findPod, splitsStreams }: ContainerLogsDeps,
  { namespace, pod: name, container, options: { stream, previous } }: LogRequest,
): { readonly uid: PodUid; readonly instance: ExistingInstance } {
  const found = findPod(namespace, name);
  if (found === undefined) throw new ApiError(404, `pod ${quoteGo(name)} does not exist`);
  const { spec, status, metadata } = found;
  if (!allContainers(spec).some((each) => each.name === container))
    throw new ApiError(404, `container ${quoteGo(container)} not found in pod ${quoteGo(name)}`);
  if (stream !== "All" && !splitsStreams) {
    const cure = "Please enable PodLogsQuerySplitStreams feature gate in kubelet";
    throw new ApiError(400, `unable to return the given log stream: ${quoteGo(stream)}. ${cure}`);
  }
  const instance = instanceWithLogs(name, status, container, previous);
  if ("problem" in instance) throw new ApiError(400, instance.problem);
  return { uid: metadata.uid as PodUid, instance };
}

async function sendLog(
  deps: ContainerLogsDeps & Parameters<typeof followLog>[0],
  uid: PodUid,
  { id, fullId }: ExistingInstance,
  { options, signal }: LogRequest,
  response: ApiResponse,
): Promise<void> {
  let end = () => {};
  let hasEnded = false;
  // It waits before it asks for the status, so that no end is missed in between.
  const stopWaiting = deps.ends.waitFor(uid, id, () => {
    hasEnded = true;
    end();
  });
  try {
    const { logPath, state } = await deps.runtime.containerStatus(id, { signal });
    const isRunning = state === ContainerState.CONTAINER_RUNNING && !hasEnded;
    const path = pathBelow(deps.logs.root, logPath);
    await followLog(
      deps,
      { path, options, signal, write: (piece) => response.write(piece) },
      {
        isRunning,
        onEnd(ended) {
          end = ended;
          if (hasEnded) ended();
        },
      },
    );
  } catch (error) {
    throw toUnreadable(error, fullId, signal);
  } finally {
    stopWaiting();
  }
}

function pathBelow(root: string, path: string): string {
  if (!path.startsWith(`${root}/`))
    throw new UnreadableLogError(
      `failed to open log file ${quoteGo(path)}: it is not in ${root}, the directory of the pods' logs`,
    );
  return path.slice(root.length + 1);
}

function toUnreadable(error: unknown, fullId: string, signal: AbortSignal): unknown {
  if (signal.aborted) return error;
  if (error instanceof CriError) return new UnreadableLogError(`unable to retrieve container logs for ${fullId}`);
  if (error instanceof LogFormatError) return new UnreadableLogError(error.message);
  if (!(error instanceof FilesError)) return error;
  const path = quoteGo(error.path);
  const text =
    error.code === "ENOENT"
      ? `failed to try resolving symlinks in path ${path}: lstat ${error.path}: no such file or directory`
      : `failed to open log file ${path}: ${messageOf(error)}`;
  return new UnreadableLogError(text, { cause: error });
}
