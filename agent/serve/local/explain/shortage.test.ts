import { expect, test } from "bun:test";
import { explainShortage } from "./shortage.ts";

const shortage = (resource: string, requested: number, used: number, capacity: number) =>
  `Pod was rejected: Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`;
const preemption =
  "Pod was rejected: Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: ";
const counts = "what pods request counts, not what they use";

const resources = { requests: { cpu: "4", memory: "2Gi" } };
const spec = { containers: [{ name: "main", resources }] };

const rows: readonly (readonly [message: string, explanation: string | undefined])[] = [
  [shortage("cpu", 4000, 250, 2000), `${counts}: the pod requests 4 CPUs, and the node has 1.75 of 2 free`],
  [shortage("cpu", 1000, 900, 1000), `${counts}: the pod requests 1 CPU, and the node has 0.1 of 1 free`],
  // After a restart with less capacity more may be in use than there is.
  [
    shortage("memory", 2 ** 31, 2 ** 32, 2 ** 30),
    `${counts}: the pod requests 2.0 GiB of memory, and the node has 0 bytes of 1.0 GiB free`,
  ],
  [
    shortage("ephemeral-storage", 2 ** 40, 0, 2 ** 35),
    `${counts}: the pod requests 1.0 TiB of disk, and the node has 32 GiB of 32 GiB free`,
  ],
  [
    shortage("example.com/dongle", 2, 0, 1),
    `${counts}: the pod requests 2 of example.com/dongle, and the node has 1 of 1 free`,
  ],
  [shortage("pods", 1, 110, 110), "the node has room for 110 pods (maxPods, podsPerCore), and as many are on it"],
  [
    `${preemption}[(res: cpu, q: 2000), (res: memory, q: 1073741824), ]`,
    `${counts}: the pod requests 4 CPUs, and the node has 2 free; it requests 2.0 GiB of memory, and the node has 1.0 GiB free`,
  ],
  ["Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector", undefined],
];
for (const [message, explanation] of rows)
  test(`"${message}" ${explanation === undefined ? "needs no explanation" : "is explained"}`, () => {
    expect(explainShortage({ spec }, message)).toBe(explanation);
  });
