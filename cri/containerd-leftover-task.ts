import { DeleteContainerRequest, DeleteContainerResponse } from "../proto/cri/gen/containerd-containers.ts";
import { DeleteResponse, DeleteTaskRequest } from "../proto/cri/gen/containerd-tasks.ts";
import type { CallLimits, Channel } from "./channel.ts";
import { CriError, ignoreNotFound } from "./error.ts";
import { rpcMethod } from "./rpc-method.ts";

const metadata = { "containerd-namespace": "k8s.io" };

const deleteTask = {
  ...rpcMethod("containerd.services.tasks.v1.Tasks", "Delete", DeleteTaskRequest, DeleteResponse),
  metadata,
};

const deleteContainer = {
  ...rpcMethod(
    "containerd.services.containers.v1.Containers",
    "Delete",
    DeleteContainerRequest,
    DeleteContainerResponse,
  ),
  metadata,
};

/**
 * Retries the removal of a container that the runtime rejected with `originalError`, after deleting a leftover
 * containerd task; throws `originalError` if that does not help.
 *
 * If the caller of StartContainer is cancelled or dies at the wrong moment, containerd (1.6 and 2.1) keeps a task that
 * was created but never started and that CRI has forgotten: CRI shows the container as exited. Neither the container
 * nor its sandbox can then be removed (FAILED_PRECONDITION) until containerd is restarted. containerd's task service on
 * the same socket can delete such a task; it refuses to delete a running one.
 */
export async function removeWithLeftoverTask(
  { call }: Pick<Channel, "call">,
  containerId: string,
  limits: CallLimits,
  originalError: unknown,
  remove: () => Promise<unknown>,
): Promise<void> {
  if (!(originalError instanceof CriError && originalError.code === "FAILED_PRECONDITION")) throw originalError;
  try {
    await call(deleteTask, { containerId }, limits);
  } catch {
    // Another runtime, or another reason: the original error is more specific.
    throw originalError;
  }
  await remove();
}

/**
 * Removes a sandbox by `remove`, together with a containerd task and container that a cancelled RunPodSandbox may have
 * left. Rejects as `remove` does.
 *
 * In this case containerd 2.1 reports no error: CRI shows the sandbox as not ready and removes it, but the task, its
 * shim and its container stay for ever. So the task is deleted first, while the sandbox is still listed: an agent that
 * dies in between finds the sandbox and repeats the removal. For an ordinary sandbox both deletions are two quick
 * NOT_FOUNDs.
 */
export async function removeSandboxWithLeftoverTask(
  { call }: Pick<Channel, "call">,
  sandboxId: string,
  limits: CallLimits,
  remove: () => Promise<unknown>,
): Promise<void> {
  // Errors are ignored: no leftover task, a running one, or another runtime. If the runtime is away, `remove` fails.
  await call(deleteTask, { containerId: sandboxId }, limits).catch(() => undefined);
  await remove();
  // In any case: an earlier attempt may have deleted the task, and its agent died before this call.
  await call(deleteContainer, { id: sandboxId }, limits).catch(ignoreNotFoundOrUnimplemented);
}

/** Only containerd has this service; other runtimes leave no such container. */
function ignoreNotFoundOrUnimplemented(error: unknown): void {
  if (error instanceof CriError && error.code === "UNIMPLEMENTED") return;
  ignoreNotFound(error);
}
