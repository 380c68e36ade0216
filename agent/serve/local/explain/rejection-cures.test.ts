import { describe, expect, test } from "bun:test";
import type { Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { cureOf } from "./cures.ts";

const resources = { requests: { cpu: "4", memory: "2Gi" } };
const pod: Pod = {
  metadata: { namespace: "shop", name: "web" },
  spec: {
    containers: [{ name: "main", resources }],
    nodeName: "pi-7",
    nodeSelector: { disktype: "ssd", zone: "a" },
  },
};

const cure = (reason: string, message: string, manifest?: string) =>
  cureOf({ pod, reason, message, manifest, container: undefined, podIP: "" });

const AGAIN =
  "; after a change of the node move the manifest out of its folder, and back when berth pods does not show the pod any more";
const shortage = (resource: string, requested: number, used: number, capacity: number) =>
  `Pod was rejected: Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`;
const preemption =
  "Pod was rejected: Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: ";
const HINT = "(resources.requests; a limit without a request counts as a request)";

const staticRows: readonly (readonly [reason: string, message: string, text: string, command?: string])[] = [
  [
    "OutOfcpu",
    shortage("cpu", 2000, 250, 2000),
    `lower the pod's requests to at most cpu 1750m ${HINT}, or end other pods of this node${AGAIN}`,
    "berth pods",
  ],
  [
    "OutOfmemory",
    shortage("memory", 2 ** 31, 2 ** 30, 2 ** 31 - 1),
    `lower the pod's requests to at most memory 1023Mi ${HINT}`,
  ],
  [
    "UnexpectedAdmissionError",
    `${preemption}[(res: cpu, q: 2000), (res: memory, q: 1073741824), ]`,
    `lower the pod's requests to at most cpu 2 and memory 1024Mi ${HINT}, or end other pods of this node${AGAIN}`,
    "berth pods",
  ],
  [
    "UnexpectedAdmissionError",
    `${preemption}[(res: pods, q: 1), ]`,
    `end other pods of this node, or raise maxPods (podsPerCore) in the agent's configuration${AGAIN}`,
    "berth pods",
  ],
  ["UnexpectedAdmissionError", "another", `this node rejects the pod: change what the message names${AGAIN}`],
  [
    "NodeAffinity",
    "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    `correct the pod's nodeSelector (disktype=ssd,zone=a), or give the node such labels: --node-labels=disktype=ssd,zone=a of the agent, or kubectl label in a cluster${AGAIN}`,
  ],
  ["NodeName", "", "remove spec.nodeName (pi-7): this node has another name"],
  ["NodePorts", "", `use another hostPort, or end the pod that has it${AGAIN}`, "berth pods"],
  [
    "AppArmor",
    "Cannot enforce AppArmor",
    `remove appArmorProfile, or enable AppArmor in the node's kernel (apparmor=1 security=apparmor)${AGAIN}`,
  ],
  [
    "SysctlForbidden",
    'forbidden sysctl: "kernel.msgmax" not allowlisted',
    `remove kernel.msgmax from securityContext.sysctls, or allow it in the agent's configuration (allowedUnsafeSysctls: ["kernel.msgmax"])${AGAIN}`,
  ],
  [
    "SysctlForbidden",
    'forbidden sysctl: "net.core.somaxconn" not allowed with host Net enabled',
    "remove net.core.somaxconn from securityContext.sysctls, or hostNetwork",
  ],
  ["PodOSNotSupported", "", "this is a Linux node: correct spec.os, or the pod's label kubernetes.io/os"],
  [
    "SupplementalGroupsPolicyNotSupported",
    "",
    `remove supplementalGroupsPolicy: Strict, or install containerd 2 or later${AGAIN}`,
    "berth doctor",
  ],
  ["PodFeatureUnsupported", "", "remove what the message names: this node does not run pods with it"],
  ["Evicted", "", "the pod has ended and is not started again"],
];

describe("the cure of a static pod that is rejected", () => {
  for (const [reason, message, text, command] of staticRows)
    test(`for ${reason}: ${message}`, () => {
      const { text: found, commands } = cure(reason, message, "/manifests/web.yaml");
      expect(found).toBe(text);
      expect(commands).toEqual([...(command === undefined ? [] : [command]), "$EDITOR /manifests/web.yaml"]);
    });
});

test("other pods need not end for one that the empty node has no room for", () => {
  const { text, commands } = cure("OutOfcpu", shortage("cpu", 4000, 1000, 2000), "/manifests/web.yaml");
  expect(text).toBe(`lower the pod's requests to at most cpu 1 ${HINT}`);
  expect(commands).toEqual(["$EDITOR /manifests/web.yaml"]);
});

const ALL = "other pods have requested all";
const fullRows: readonly (readonly [what: string, message: string, text: string])[] = [
  [
    "without free cpu",
    shortage("cpu", 1000, 2000, 2000),
    `${ALL} cpu of this node: remove cpu from the pod's requests ${HINT}, or end other pods of this node${AGAIN}`,
  ],
  [
    "without free cpu, of which it has less than the pod requests",
    shortage("cpu", 4000, 2000, 2000),
    `${ALL} cpu of this node: remove cpu from the pod's requests ${HINT}, or end other pods of this node and lower the requests to at most cpu 2${AGAIN}`,
  ],
  [
    "with less than a mebibyte of memory free",
    shortage("memory", 2 ** 30, 2 ** 31 - 1000, 2 ** 31),
    `${ALL} memory of this node: remove memory from the pod's requests ${HINT}, or end other pods of this node${AGAIN}`,
  ],
  [
    "without free cpu and with some memory, for a critical pod",
    `${preemption}[(res: cpu, q: 4000), (res: memory, q: 1073741824), ]`,
    `${ALL} cpu of this node: remove cpu from the pod's requests, and lower them to at most memory 1024Mi ${HINT}, or end other pods of this node${AGAIN}`,
  ],
  [
    "without such a device",
    shortage("example.com/dongle", 1, 0, 0),
    `this node has no example.com/dongle: start what provides it on this node, such as a device plugin, or remove example.com/dongle from the pod's requests${AGAIN}`,
  ],
  [
    "without huge pages",
    shortage("hugepages-2Mi", 2 ** 21, 0, 0),
    `this node has no hugepages-2Mi: reserve huge pages on this node (vm.nr_hugepages) and restart the agent, or remove hugepages-2Mi from the pod's requests${AGAIN}`,
  ],
];
test.each(fullRows)("on a node %s the cure names no request of nothing", (_, message, text) => {
  const reason = message.startsWith(preemption) ? "UnexpectedAdmissionError" : "OutOfcpu";
  expect(cure(reason, message, "/manifests/web.yaml").text).toBe(text);
});

test("a manifest whose path a shell would divide is quoted", () => {
  expect(cure("NodeName", "", "/my manifests/it's.yaml").commands).toEqual(["$EDITOR '/my manifests/it'\\''s.yaml'"]);
  expect(cure("NodeName", "", "http://pods.example/?a=1&b=2").commands).toEqual([
    "curl 'http://pods.example/?a=1&b=2'",
  ]);
});

test("a pod of the API is replaced, or runs on another node", () => {
  const { text, commands } = cure("NodeAffinity", "Predicate NodeAffinity failed");
  expect(text).toBe(
    "correct the pod's nodeSelector (disktype=ssd,zone=a), give the node such labels, or run the pod on another node",
  );
  expect(commands).toEqual([
    "kubectl get node pi-7 --show-labels",
    "kubectl label node pi-7 disktype=ssd zone=a",
    "kubectl -n shop delete pod web",
  ]);
  expect(cure("OutOfpods", shortage("pods", 1, 110, 110)).text).toBe(
    "end other pods of this node, run it on another one, or raise maxPods (podsPerCore) in the agent's configuration",
  );
});

test("a manifest from a URL is shown, not edited", () => {
  expect(cure("NodeName", "", "http://pods.example/pods").commands).toEqual(["curl http://pods.example/pods"]);
});
