import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { Container, ContainerResizePolicy, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { nodeSettings, observedMachine } from "../../../test/fakes/observed-node.ts";
import { createNodeUsage } from "../../desired/node-usage.ts";
import type { AdmissionInput } from "../admission/admission.ts";
import { toAdmissionNode } from "../admission/admission-node.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { allocationOf } from "./allocation.ts";
import { decideResize, type ResizeSettings } from "./resize-verdict.ts";

const container = (requests: Readonly<Record<string, string>>, more: Partial<Container> = {}): Container => ({
  name: "a",
  image: "busybox:1",
  resources: { requests },
  ...more,
});
const guaranteed = (cpu: string, memory: string): Container =>
  container({ cpu, memory }, { resources: { requests: { cpu, memory }, limits: { cpu, memory } } });
const restarting: readonly ContainerResizePolicy[] = [{ resourceName: "memory", restartPolicy: "RestartContainer" }];

function desired(spec: PodSpec, name = "web"): DesiredPod {
  const uid = name as PodUid;
  const pod: Pod = { metadata: { uid, name, generation: 2 }, spec };
  return { uid, pod, source: { kind: "api" }, acceptedAt: 0, revision: 0 };
}

/** Four CPUs and 8092Mi for pods. Another pod has two CPUs and 4Gi. */
function admission(more: Partial<AdmissionInput> = {}): AdmissionInput {
  const others = createNodeUsage();
  others.update(desired({ containers: [container({ cpu: "2", memory: "4Gi" })] }, "other"));
  return {
    node: toAdmissionNode({ metadata: { name: "node-a" }, spec: {} }, observedMachine, nodeSettings),
    usage: others.usage,
    isNodeUpToDate: true,
    arePreviousPodsObserved: true,
    supportsGroupsPolicy: true,
    ...more,
  };
}

const settings: ResizeSettings = { resizesPodLevel: true, hasLimitedSwap: false, staticManagers: [] };
const app = (requests: Readonly<Record<string, string>>, more?: Partial<Container>): PodSpec => ({
  containers: [container(requests, more)],
});

interface Given {
  readonly settings?: Partial<ResizeSettings>;
  readonly admission?: Partial<AdmissionInput>;
}

const rows: readonly (readonly [sentence: string, before: PodSpec, after: PodSpec, given?: Given])[] = [
  ["the same amounts in another notation", app({ cpu: "100m" }), app({ cpu: "0.1" })],
  ["there is room", app({ cpu: "1" }), app({ cpu: "2" })],
  ["a decrease", app({ cpu: "2", memory: "1Gi" }), app({ cpu: "1", memory: "512Mi" })],
  [
    "a limit alone",
    app({ cpu: "1" }),
    app({ cpu: "1" }, { resources: { requests: { cpu: "1" }, limits: { cpu: "9" } } }),
  ],
  ["others use the room", app({ cpu: "1" }), app({ cpu: "2001m" })],
  ["others use the memory", app({ memory: "1Gi" }), app({ memory: "5Gi" })],
  ["exactly the whole node", app({ cpu: "1" }), app({ cpu: "4" })],
  ["more CPU than the node has", app({ cpu: "1" }), app({ cpu: "4001m" })],
  ["more memory than pods may use", app({ memory: "1Gi" }), app({ memory: "8Gi" })],
  ["more of both: memory is named", app({ cpu: "1" }), app({ cpu: "5", memory: "9Gi" })],
  [
    "overhead counts",
    { ...app({ cpu: "1" }), overhead: { cpu: "500m" } },
    { ...app({ cpu: "4" }), overhead: { cpu: "500m" } },
  ],
  ["the node is not known yet", app({ cpu: "1" }), app({ cpu: "2" }), { admission: { node: unknownNode() } }],
  [
    "an earlier agent's pods are not observed yet",
    app({ cpu: "1" }),
    app({ cpu: "3" }),
    { admission: { arePreviousPodsObserved: false } },
  ],
  [
    "the pod's own resources",
    { ...app({}), resources: { requests: { cpu: "1" } } },
    { ...app({}), resources: { requests: { cpu: "2" } } },
  ],
  [
    "the pod's own resources, with the gate off",
    { ...app({}), resources: { requests: { cpu: "1" } } },
    { ...app({}), resources: { requests: { cpu: "2" } } },
    { settings: { resizesPodLevel: false } },
  ],
  [
    "a container's resources, with that gate off",
    { ...app({ cpu: "1" }), resources: { requests: { cpu: "2" } } },
    { ...app({ cpu: "2" }), resources: { requests: { cpu: "2000m" } } },
    { settings: { resizesPodLevel: false } },
  ],
  [
    "swap: another memory request",
    app({ memory: "1Gi" }),
    app({ memory: "2Gi" }),
    { settings: { hasLimitedSwap: true } },
  ],
  [
    "swap: CPU alone",
    app({ cpu: "1", memory: "1Gi" }),
    app({ cpu: "2", memory: "1Gi" }),
    { settings: { hasLimitedSwap: true } },
  ],
  [
    "swap: the container restarts for it",
    app({ memory: "1Gi" }, { resizePolicy: restarting }),
    app({ memory: "2Gi" }, { resizePolicy: restarting }),
    { settings: { hasLimitedSwap: true } },
  ],
  [
    "swap: a Guaranteed pod has none",
    { containers: [guaranteed("1", "1Gi")] },
    { containers: [guaranteed("1", "2Gi")] },
    { settings: { hasLimitedSwap: true } },
  ],
  [
    "swap: request and limit become equal",
    app({ memory: "1Gi" }, { resources: { requests: { memory: "1Gi" }, limits: { memory: "2Gi" } } }),
    app({ memory: "2Gi" }, { resources: { requests: { memory: "2Gi" }, limits: { memory: "2Gi" } } }),
    { settings: { hasLimitedSwap: true } },
  ],
  [
    "static CPU manager: a Guaranteed pod",
    { containers: [guaranteed("1", "1Gi")] },
    { containers: [guaranteed("2", "1Gi")] },
    { settings: { staticManagers: ["cpu"] } },
  ],
  [
    "static CPU manager: memory of a Guaranteed pod",
    { containers: [guaranteed("1", "1Gi")] },
    { containers: [guaranteed("1", "2Gi")] },
    { settings: { staticManagers: ["cpu"] } },
  ],
  [
    "static memory manager: a Guaranteed pod",
    { containers: [guaranteed("1", "1Gi")] },
    { containers: [guaranteed("1", "2Gi")] },
    { settings: { staticManagers: ["cpu", "memory"] } },
  ],
  [
    "static managers: a Burstable pod",
    app({ cpu: "1", memory: "1Gi" }),
    app({ cpu: "2", memory: "2Gi" }),
    { settings: { staticManagers: ["cpu", "memory"] } },
  ],
];

function unknownNode(): AdmissionInput["node"] {
  return toAdmissionNode("unknown", observedMachine, nodeSettings);
}

test("a resize is accepted, Deferred or Infeasible", () => {
  const lines = rows.map(([sentence, before, after, given = {}]) => {
    const allocation = allocationOf({ spec: before });
    const verdict = decideResize(desired(after), {
      allocation,
      admission: admission(given.admission),
      settings: { ...settings, ...given.settings },
    });
    return `${sentence}:\n  ${verdict.kind}${"message" in verdict ? `: ${verdict.message}` : ""}`;
  });
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    the same amounts in another notation:
      none
    there is room:
      accepted
    a decrease:
      accepted
    a limit alone:
      accepted
    others use the room:
      Deferred: Node didn't have enough resource: cpu, requested: 2001, used: 2000, capacity: 4000
    others use the memory:
      Deferred: Node didn't have enough resource: memory, requested: 5368709120, used: 4294967296, capacity: 8485076992
    exactly the whole node:
      Deferred: Node didn't have enough resource: cpu, requested: 4000, used: 2000, capacity: 4000
    more CPU than the node has:
      Infeasible: Node didn't have enough capacity: cpu, requested: 4001, capacity: 4000
    more memory than pods may use:
      Infeasible: Node didn't have enough capacity: memory, requested: 8589934592, capacity: 8485076992
    more of both: memory is named:
      Infeasible: Node didn't have enough capacity: memory, requested: 9663676416, capacity: 8485076992
    overhead counts:
      Infeasible: Node didn't have enough capacity: cpu, requested: 4500, capacity: 4000
    the node is not known yet:
      wait
    an earlier agent's pods are not observed yet:
      wait
    the pod's own resources:
      accepted
    the pod's own resources, with the gate off:
      Infeasible: InPlacePodLevelResourcesVerticalScaling is disabled
    a container's resources, with that gate off:
      accepted
    swap: another memory request:
      Infeasible: In-place resize of containers with swap is not supported.
    swap: CPU alone:
      accepted
    swap: the container restarts for it:
      accepted
    swap: a Guaranteed pod has none:
      accepted
    swap: request and limit become equal:
      Infeasible: In-place resize of containers with swap is not supported.
    static CPU manager: a Guaranteed pod:
      Infeasible: Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"
    static CPU manager: memory of a Guaranteed pod:
      accepted
    static memory manager: a Guaranteed pod:
      Infeasible: Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "static"
    static managers: a Burstable pod:
      accepted
    "
  `);
});
