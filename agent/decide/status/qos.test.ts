import { expect, test } from "bun:test";
import type { PodQOSClass, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { qosClassOf } from "./qos.ts";

const both = { cpu: "1", memory: "1Gi" };
const rows: readonly [
  name: string,
  containers: readonly (ResourceRequirements | undefined)[],
  qosClass: PodQOSClass,
][] = [
  ["no resources", [undefined], "BestEffort"],
  ["zeros count as absent", [{ requests: { cpu: "0", memory: "0" } }], "BestEffort"],
  ["other resources do not count", [{ limits: { "example.com/gpu": "1" } }], "BestEffort"],
  ["limits for both resources", [{ limits: both }], "Guaranteed"],
  [
    "requests equal to limits in another notation",
    [{ limits: both, requests: { cpu: "1000m", memory: "1024Mi" } }],
    "Guaranteed",
  ],
  ["a request below its limit", [{ limits: both, requests: { cpu: "500m", memory: "1Gi" } }], "Burstable"],
  ["a limit for one of the two resources", [{ limits: { cpu: "1" } }], "Burstable"],
  ["one container guaranteed, one without resources", [{ limits: both }, undefined], "Burstable"],
  ["a request alone", [{ requests: { memory: "1Mi" } }], "Burstable"],
];
for (const [name, containers, qosClass] of rows)
  test(`${name}: ${qosClass}`, () => {
    const list = containers.map((resources, index) => ({
      name: `c${index}`,
      ...(resources === undefined ? {} : { resources }),
    }));
    expect(qosClassOf({ metadata: {}, spec: { containers: list } })).toBe(qosClass);
  });

const podLevel: readonly [name: string, pod: ResourceRequirements, container: ResourceRequirements, PodQOSClass][] = [
  ["limits of the pod for both resources", { limits: both, requests: both }, {}, "Guaranteed"],
  [
    "its containers may request less than the pod",
    { limits: both, requests: both },
    { requests: { cpu: "10m" } },
    "Guaranteed",
  ],
  ["a request of the pod below its limit", { limits: both, requests: { cpu: "1", memory: "1Mi" } }, {}, "Burstable"],
  ["a limit of the pod for one of the two", { limits: { cpu: "1" }, requests: { cpu: "1" } }, {}, "Burstable"],
  ["a request of the pod alone", { requests: { cpu: "1" } }, { limits: both, requests: both }, "Burstable"],
  ["the pod has huge pages only", { requests: { "hugepages-2Mi": "2Mi" } }, { limits: both }, "BestEffort"],
  ["the pod has no resources of its own", {}, { limits: both }, "BestEffort"],
];
for (const [name, resources, ofContainer, qosClass] of podLevel)
  test(`pod-level resources: ${name}: ${qosClass}`, () => {
    const containers = [{ name: "c", resources: ofContainer }];
    expect(qosClassOf({ metadata: {}, spec: { containers, resources } })).toBe(qosClass);
  });
