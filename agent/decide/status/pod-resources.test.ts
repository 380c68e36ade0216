import { expect, test } from "bun:test";
import type {
  Container,
  ContainerStatus,
  PodPhase,
  PodSpec,
  ResourceRequirements,
} from "../../../proto/kubernetes/gen/types.ts";
import { podResources } from "./pod-resources.ts";

const container = (name: string, resources?: ResourceRequirements, more: Partial<Container> = {}): Container => ({
  name,
  ...(resources && { resources }),
  ...more,
});
const created = (
  name: string,
  resources: Pick<ContainerStatus, "allocatedResources" | "resources">,
): ContainerStatus => ({
  name,
  image: "",
  imageID: "",
  ready: true,
  restartCount: 0,
  containerID: "containerd://1",
  ...resources,
});
const small = { requests: { cpu: "25m", memory: "24Mi" }, limits: { cpu: "250m", memory: "48Mi" } };

const rows: readonly [
  sentence: string,
  spec: PodSpec,
  phase: PodPhase,
  statuses: readonly ContainerStatus[],
  expected: ReturnType<typeof podResources>,
][] = [
  ["a pod without requests and limits shows nothing", { containers: [container("a")] }, "Running", [], {}],
  [
    "requests and limits are summed, even if a container has none",
    {
      initContainers: [
        container("first", { requests: { cpu: "60m" } }),
        container("proxy", small, { restartPolicy: "Always" }),
      ],
      containers: [
        container("a", { limits: { memory: "8Mi" }, requests: { memory: "8Mi" } }),
        container("b", { requests: { cpu: "5m" } }),
      ],
    },
    "Running",
    [],
    {
      allocatedResources: { cpu: "60m", memory: "32Mi" },
      resources: { requests: { cpu: "60m", memory: "32Mi" }, limits: { cpu: "250m", memory: "56Mi" } },
    },
  ],
  [
    "the overhead of the runtime class counts",
    { containers: [container("a")], overhead: { cpu: "10m", memory: "8Mi" } },
    "Running",
    [],
    {
      allocatedResources: { cpu: "10m", memory: "8Mi" },
      resources: { requests: { cpu: "10m", memory: "8Mi" } },
    },
  ],
  [
    "a pending pod shows all resources",
    { containers: [container("a", { requests: { cpu: "1", "ephemeral-storage": "1Gi" } })] },
    "Pending",
    [],
    {
      allocatedResources: { cpu: "1", "ephemeral-storage": "1Gi" },
      resources: { requests: { cpu: "1", "ephemeral-storage": "1Gi" } },
    },
  ],
  [
    "once it has started, only CPU and memory are applied",
    { containers: [container("a", { requests: { cpu: "1", "ephemeral-storage": "1Gi" } })] },
    "Running",
    [],
    { allocatedResources: { cpu: "1", "ephemeral-storage": "1Gi" }, resources: { requests: { cpu: "1" } } },
  ],
  [
    "a container that waits for its resize counts with what it runs with",
    { containers: [container("a", { requests: { cpu: "2" }, limits: { cpu: "2" } }), container("b", small)] },
    "Running",
    [created("a", { allocatedResources: { cpu: "2" }, resources: { requests: { cpu: "1" }, limits: { cpu: "1" } } })],
    {
      allocatedResources: { cpu: "2025m", memory: "24Mi" },
      resources: { requests: { cpu: "1025m", memory: "24Mi" }, limits: { cpu: "1250m", memory: "48Mi" } },
    },
  ],
];
for (const [sentence, spec, phase, statuses, expected] of rows)
  test(sentence, () => {
    expect(podResources({ metadata: {}, spec }, phase, statuses)).toEqual(expected);
  });
