import { DeleteResponse, DeleteTaskRequest } from "../proto/cri/gen/containerd-tasks.ts";
import type { CallLimits, Connection } from "./connection.ts";
import { CriError } from "./error.ts";
import { verbOf } from "./verb.ts";

const deleteTask = {
  ...verbOf("containerd.services.tasks.v1.Tasks", "Delete", DeleteTaskRequest, DeleteResponse),
  metadata: { "containerd-namespace": "k8s.io" },
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
