import { expect, test } from "bun:test";
import type { PodUid } from "../../proto/ids.ts";
import type { Container } from "../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import { createNodeUsage } from "./node-usage.ts";

const uid = "u" as PodUid;

function podWith(container: Pick<Container, "resources" | "ports">): DesiredPod {
  const pod = {
    metadata: { uid, name: "web" },
    spec: { containers: [{ name: "a", image: "busybox:1", ...container }] },
  };
  return { uid, pod, source: { kind: "api" }, acceptedAt: 0, revision: 0 };
}

test("releasing a pod subtracts what was added for it, even if the pod has changed since", () => {
  const nodeUsage = createNodeUsage();
  const pod = podWith({ resources: { requests: { cpu: "3" } }, ports: [{ containerPort: 1, hostPort: 80 }] });
  nodeUsage.update(pod);
  nodeUsage.update({ ...podWith({ resources: { requests: { cpu: "1" } } }), revision: 1 });
  expect([nodeUsage.usage.pods(), nodeUsage.usage.amount("cpu")]).toEqual([1, 1000n]);
  nodeUsage.update({ ...pod, hasReleasedResources: true });
  nodeUsage.release(uid);
  expect([nodeUsage.usage.pods(), nodeUsage.usage.amount("cpu")]).toEqual([0, 0n]);
  expect(nodeUsage.usage.isPortUsed({ ip: "0.0.0.0", protocol: "TCP", port: 80 })).toBe(false);
});
