import { pollUntil } from "../bed/poll-until.ts";
import type { ControlPlane } from "./control-plane.ts";

/** Creates pods in the namespace `default`, whose service account a controller makes some time after the start. */
export async function createPods(plane: Pick<ControlPlane, "kubectl">, items: readonly object[]): Promise<void> {
  await pollUntil("the service account", 30_000, () =>
    plane.kubectl(["get", "serviceaccount", "default"]).then(
      () => true,
      () => false,
    ),
  );
  const input = JSON.stringify({ apiVersion: "v1", kind: "List", items });
  await plane.kubectl(["create", "--filename=-"], { input });
}
