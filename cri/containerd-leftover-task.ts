import { DeleteContainerRequest, DeleteContainerResponse } from "../proto/cri/gen/containerd-containers.ts";
import { DeleteResponse, DeleteTaskRequest } from "../proto/cri/gen/containerd-tasks.ts";
import type { CallLimits, Connection } from "./channel.ts";
import { absentIsFine, CriError } from "./error.ts";
import { verbOf } from "./rpc-method.ts";

const metadata = { "containerd-namespace": "k8s.io" };

const deleteTask = {
  ...verbOf("containerd.services.tasks.v1.Tasks", "Delete", DeleteTaskRequest, DeleteResponse),
  metadata,
};

const deleteContainer = {
  ...verbOf("containerd.services.containers.v1.Containers", "Delete", DeleteContainerRequest, DeleteContainerResponse),
  metadata,
};

/**
 * Removes a container again after the runtime has refused with `refusal`, if that can be helped; else throws the refusal.
 *
 * A StartContainer that is cut short at the wrong moment, because its caller gives up or dies, leaves a task behind in
 * containerd (1.6 and 2.1 alike): made, never started, and forgotten by CRI, which shows the container as exited. Neither the
 * container nor its sandbox can be removed then, FAILED_PRECONDITION, until containerd is started anew. Its own task service
 * on the same socket takes such a task away; one that runs it refuses to delete.
 */
export async function removeWithLeftTask(
  { call }: Pick<Connection, "call">,
  containerId: string,
  limits: CallLimits,
  refusal: unknown,
  remove: () => Promise<unknown>,
): Promise<void> {
  if (!(refusal instanceof CriError && refusal.code === "FAILED_PRECONDITION")) throw refusal;
  try {
    await call(deleteTask, { containerId }, limits);
  } catch {
    // Another runtime, or another reason: the refusal stands, and says it better.
    throw refusal;
  }
  await remove();
}

/**
 * Removes a sandbox by `remove`, and what a RunPodSandbox that was cut short may have left of it. Rejects as `remove` does.
 *
 * There containerd 2.1 refuses nothing: CRI shows the sandbox as not ready, removes it, and says nothing of the task, its shim
 * and its container, which then stay for good. So the task goes first, while the sandbox is still listed: whoever is cut
 * short in between finds it and does it again. Of a sandbox that ran there is neither any more, and that is two quick answers.
 */
export async function removeSandboxWithLeftTask(
  { call }: Pick<Connection, "call">,
  sandboxId: string,
  limits: CallLimits,
  remove: () => Promise<unknown>,
): Promise<void> {
  // Nothing was left, it runs, or the runtime is another; should it be away, the removal says so.
  await call(deleteTask, { containerId: sandboxId }, limits).catch(() => undefined);
  await remove();
  // Asked for in any case: the task may have gone by an earlier try, whose agent died before this.
  await call(deleteContainer, { id: sandboxId }, limits).catch(absentOrUnknown);
}

/** Only containerd has this service; elsewhere nothing of the kind is left. */
function absentOrUnknown(error: unknown): void {
  if (error instanceof CriError && error.code === "UNIMPLEMENTED") return;
  absentIsFine(error);
}
