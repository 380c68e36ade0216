import { pollUntil } from "../bed/poll-until.ts";
import type { ControlPlane } from "./control-plane.ts";

/** Waits for the default service account of a namespace, which a controller creates. Without it the API server rejects pods. */
export async function waitForServiceAccount(plane: Pick<ControlPlane, "kubectl">, namespace: string): Promise<void> {
  await pollUntil(`the service account of the namespace ${namespace}`, 30_000, () =>
    plane.kubectl(["get", "serviceaccount", "default", `--namespace=${namespace}`]).then(
      () => true,
      () => false,
    ),
  );
}
