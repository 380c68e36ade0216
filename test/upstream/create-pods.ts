import type { ControlPlane } from "./control-plane.ts";
import { waitForServiceAccount } from "./service-account.ts";

/** Creates pods in the namespace `default`, as soon as it takes pods. */
export async function createPods(plane: Pick<ControlPlane, "kubectl">, items: readonly object[]): Promise<void> {
  await waitForServiceAccount(plane, "default");
  const input = JSON.stringify({ apiVersion: "v1", kind: "List", items });
  await plane.kubectl(["create", "--filename=-"], { input });
}
