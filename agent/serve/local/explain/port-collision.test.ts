import { expect, test } from "bun:test";
import type { ContainerPort, Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { explainPortCollision, type PortOwner } from "./port-collision.ts";

const podWith = (name: string, ...ports: readonly Partial<ContainerPort>[]): Pod => ({
  metadata: { namespace: "default", name, uid: name },
  spec: { containers: [{ name: "main", ports: ports.map((port) => ({ containerPort: 80, ...port })) }] },
});
const owner = (name: string, port: Partial<ContainerPort>, more: Partial<PortOwner> = {}): PortOwner => ({
  ...{ pod: podWith(name, port), stage: "syncing", isRejected: false },
  ...more,
});
const MESSAGE =
  "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
const pod = podWith("web", { hostPort: 8080, hostIP: "10.0.0.1" }, { hostPort: 53, protocol: "UDP" });

test("every pod that has a port is named", () => {
  const owners = [owner("a", { hostPort: 8080 }), owner("b", { hostPort: 53, protocol: "UDP", hostIP: "127.0.0.1" })];
  expect(explainPortCollision(pod, MESSAGE, owners)).toBe(
    "hostPort 8080/TCP is taken by default/a and 53/UDP is taken by default/b",
  );
  expect(explainPortCollision(pod, "it exited with code 1", owners)).toBeUndefined();
});

test.each([
  ["has another protocol", owner("a", { hostPort: 53 })],
  ["has another address", owner("a", { hostPort: 8080, hostIP: "10.0.0.2" })],
  ["has ended", owner("a", { hostPort: 8080 }, { stage: "finished" })],
  ["was rejected itself", owner("a", { hostPort: 8080 }, { isRejected: true })],
  ["is the pod itself", owner("web", { hostPort: 8080 })],
])("a pod that %s has not taken the port", (_, other) => {
  expect(explainPortCollision(pod, MESSAGE, [other])).toBeUndefined();
});
