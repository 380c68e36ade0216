import { expect, test } from "bun:test";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import { containerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import type { ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import type { ObservedContainer, RuntimeResources } from "../pod/observed.ts";
import { resourcesOfInstance } from "./container-resources.ts";

const instance: ObservedContainer = {
  id: "a0" as ContainerId,
  name: "a",
  sandboxId: "s" as SandboxId,
  attempt: 0,
  createdAt: 0,
  image: "",
  imageRef: "",
  hash: undefined,
  crashes: 0,
  state: "running",
  startedAt: 0,
};
const MI = 2 ** 20;
const small = { requests: { cpu: "100m", memory: "64Mi" }, limits: { cpu: "200m", memory: "64Mi" } };

interface Given {
  readonly allocated: ResourceRequirements;
  /** What the instance was created with, or has been given. */
  readonly runsWith?: ResourceRequirements;
  readonly reported?: RuntimeResources;
  readonly isExited?: true;
}

const rows: readonly (readonly [sentence: string, given: Given, resources: ResourceRequirements])[] = [
  ["as it is allocated", { allocated: small, runsWith: small }, small],
  [
    "the runtime's CPU and memory limit count, and the memory request of the agent's last update",
    {
      allocated: { requests: { cpu: "1", memory: "1Gi" }, limits: { cpu: "2", memory: "1Gi" } },
      runsWith: small,
      reported: { cpuRequest: 300, cpuLimit: 400, memoryLimit: 128 * MI },
    },
    { requests: { cpu: "300m", memory: "64Mi" }, limits: { cpu: "400m", memory: "128Mi" } },
  ],
  [
    "a runtime that reports nothing: what the agent has given it",
    { allocated: { requests: { cpu: "1", memory: "1Gi" }, limits: { cpu: "2", memory: "1Gi" } }, runsWith: small },
    small,
  ],
  ["an instance of another agent on such a runtime: as allocated", { allocated: small }, small],
  [
    "the least amounts that a runtime has stay as they are allocated",
    {
      allocated: { requests: { cpu: "1m" }, limits: { cpu: "5m" } },
      reported: { cpuRequest: 2, cpuLimit: 10 },
    },
    { requests: { cpu: "1m" }, limits: { cpu: "5m" } },
  ],
  [
    "what is allocated above them does not",
    {
      allocated: { requests: { cpu: "3m" }, limits: { cpu: "11m" } },
      reported: { cpuRequest: 2, cpuLimit: 10 },
    },
    { requests: { cpu: "2m" }, limits: { cpu: "10m" } },
  ],
  [
    "the runtime's memory is binary, and a request keeps its notation",
    {
      allocated: { requests: { memory: "64M" }, limits: { memory: "64M" } },
      runsWith: { requests: { memory: "64M" }, limits: { memory: "64M" } },
      reported: { cpuRequest: 2, memoryLimit: 64_000_000 },
    },
    { requests: { memory: "64M" }, limits: { memory: "62500Ki" } },
  ],
  [
    "a container without requests or limits of its own shows none",
    { allocated: {}, reported: { cpuRequest: 2, cpuLimit: 500, memoryLimit: 64 * MI } },
    {},
  ],
  [
    "other resources are shown as allocated",
    { allocated: { requests: { cpu: "1", "ephemeral-storage": "1Gi" } }, reported: { cpuRequest: 500 } },
    { requests: { cpu: "500m", "ephemeral-storage": "1Gi" } },
  ],
  [
    "an exited instance shows what is allocated",
    { allocated: small, reported: { cpuRequest: 300 }, isExited: true },
    small,
  ],
];
for (const [sentence, { allocated, runsWith, reported, isExited }, resources] of rows)
  test(sentence, () => {
    const shown = {
      ...instance,
      ...(runsWith && { amounts: containerAmounts(runsWith) }),
      ...(reported && { resources: reported }),
      ...(isExited && ({ state: "exited", finishedAt: 1, exitCode: 0, reason: "", message: "" } as const)),
    } as ObservedContainer;
    const { requests } = allocated;
    expect(resourcesOfInstance({ name: "a", resources: allocated }, shown)).toEqual({
      ...(requests && { allocatedResources: requests }),
      resources,
    });
  });

test("a container of a manifest without resources shows none", () => {
  expect(resourcesOfInstance({ name: "a" }, instance)).toEqual({});
});
