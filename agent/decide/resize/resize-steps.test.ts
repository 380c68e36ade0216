import { expect, test } from "bun:test";
import type { ResizableLimits } from "../../../proto/cgroup/limits.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { type ContainerAmounts, containerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import type {
  Container,
  ContainerResizePolicy,
  PodSpec,
  ResourceRequirements,
} from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { podCgroupLimits } from "../cgroups/pod-cgroup.ts";
import { qosClassOf } from "../status/qos.ts";
import { allocationOf, type PodAllocation, resizableContainers } from "./allocation.ts";
import { describeStep, planResize, type ResizeStepsInput, withStep } from "./resize-steps.ts";

const MI = 2 ** 20;

/** CPU and memory: requests and limits. */
const sized = (cpu: string, memory: string): ResourceRequirements => {
  const [cpuRequest = "", cpuLimit = ""] = cpu.split("/");
  const [memoryRequest = "", memoryLimit = ""] = memory.split("/");
  const list = (cpuAmount: string, memoryAmount: string) => ({
    ...(cpuAmount && { cpu: cpuAmount }),
    ...(memoryAmount && { memory: memoryAmount }),
  });
  return { requests: list(cpuRequest, memoryRequest), limits: list(cpuLimit, memoryLimit) };
};
const container = (name: string, resources: ResourceRequirements, more: Partial<Container> = {}): Container => ({
  name,
  resources,
  ...more,
});
const restartFor = (resourceName: "cpu" | "memory"): readonly ContainerResizePolicy[] => [
  { resourceName, restartPolicy: "RestartContainer" },
];

function limitsOf(spec: PodSpec): ResizableLimits {
  const pod = { metadata: {}, spec };
  const { cpuWeight, cpuMax, memoryMax } = podCgroupLimits(pod, qosClassOf(pod), nodeFacts);
  if (cpuWeight === undefined || cpuMax === undefined || memoryMax === undefined) throw new Error("limits are missing");
  return { cpuWeight, cpuMax, memoryMax };
}

const amountsOf = (spec: PodSpec): Readonly<Record<string, ContainerAmounts>> =>
  Object.fromEntries(
    resizableContainers(spec).map(({ name, resources }) => [name, containerAmounts(resources, spec.resources)]),
  );

interface Given {
  readonly before: PodSpec;
  readonly after: PodSpec;
  readonly notRunning?: readonly string[];
  readonly memoryUsage?: ResizeStepsInput["memoryUsage"];
  readonly hasNoCgroup?: boolean;
}

const idle: ResizeStepsInput["memoryUsage"] = { pod: 0, containers: { a: 0, b: 0, c: 0, proxy: 0 } };

function inputOf({ before, after, notRunning = [], memoryUsage = idle, hasNoCgroup }: Given): ResizeStepsInput {
  return {
    pod: { metadata: { generation: 2 }, spec: after },
    allocation: { ...allocationOf({ spec: after }), started: { generation: 2, since: 0 } },
    running: Object.entries(amountsOf(before))
      .filter(([name]) => !notRunning.includes(name))
      .map(([name, amounts]) => ({ name, id: `${name}0` as ContainerId, amounts })),
    podCgroup: hasNoCgroup ? undefined : { current: limitsOf(before), target: limitsOf(after) },
    memoryUsage,
  };
}

/** Takes the first step of the plan, again and again, as an agent does that dies after each. */
function course(given: Given): readonly string[] {
  let input = inputOf(given);
  const lines: string[] = [];
  for (let turn = 0; turn < 30; turn += 1) {
    const plan = planResize(input);
    if ("problem" in plan) return [...lines, `problem: ${plan.problem}`];
    const [step] = plan.steps;
    if (step === undefined) return lines;
    lines.push(describeStep(step));
    const allocation: PodAllocation = withStep(input.allocation, step);
    const running = input.running
      .filter(({ id }) => step.kind !== "stopContainer" || id !== step.id)
      .map((each) => ({ ...each, amounts: allocation.actuated[each.name]?.amounts ?? each.amounts }));
    const { podCgroup } = input;
    const current = step.kind === "writePodCgroup" && podCgroup && { ...podCgroup.current, ...step.limits };
    input = {
      ...input,
      allocation,
      running,
      podCgroup: podCgroup && (current ? { ...podCgroup, current } : podCgroup),
    };
  }
  return [...lines, "it does not end"];
}

const one = (resources: ResourceRequirements, more: Partial<Container> = {}): PodSpec => ({
  containers: [container("a", resources, more)],
});
const three = (a: string, b: string, c: string): PodSpec => ({
  containers: [
    container("a", sized(a, "1Gi/1Gi")),
    container("b", sized(b, "1Gi/1Gi")),
    container("c", sized(c, "1Gi/1Gi")),
  ],
});

const plays: Readonly<Record<string, Given>> = {
  "nothing to do": { before: one(sized("1/1", "1Gi/1Gi")), after: one(sized("1000m/1", "1024Mi/1Gi")) },
  "both resources grow": { before: one(sized("1/2", "1Gi/2Gi")), after: one(sized("2/3", "2Gi/3Gi")) },
  "both resources shrink": { before: one(sized("2/3", "2Gi/3Gi")), after: one(sized("1/2", "1Gi/2Gi")) },
  "memory grows, CPU shrinks": { before: one(sized("2/2", "1Gi/1Gi")), after: one(sized("1/1", "2Gi/2Gi")) },
  "a request alone": { before: one(sized("1/2", "1Gi/2Gi")), after: one(sized("500m/2", "512Mi/2Gi")) },
  "two containers shrink and one grows, by more": {
    before: three("1/1", "1/1", "1/1"),
    after: three("900m/900m", "800m/800m", "2/2"),
  },
  "two containers grow and one shrinks, by more": {
    before: three("1/1", "2/2", "1/1"),
    after: three("1100m/1100m", "500m/500m", "1200m/1200m"),
  },
  "the pod without a cgroup of its own": {
    before: one(sized("1/2", "1Gi/2Gi")),
    after: one(sized("2/3", "2Gi/3Gi")),
    hasNoCgroup: true,
  },
  "a limit is added": { before: one(sized("1", "1Gi")), after: one(sized("1/2", "1Gi/2Gi")) },
  "a limit is removed": { before: one(sized("1/2", "1Gi/2Gi")), after: one(sized("1", "1Gi")) },
  "a container restarts for memory": {
    before: one(sized("1/2", "1Gi/2Gi"), { resizePolicy: restartFor("memory") }),
    after: one(sized("1/2", "2Gi/3Gi"), { resizePolicy: restartFor("memory") }),
  },
  "a container that restarts for memory gets CPU without": {
    before: one(sized("1/2", "1Gi/2Gi"), { resizePolicy: restartFor("memory") }),
    after: one(sized("2/3", "1Gi/2Gi"), { resizePolicy: restartFor("memory") }),
  },
  "a container that does not run is left alone": {
    before: three("1/1", "1/1", "1/1"),
    after: three("2/2", "2/2", "1/1"),
    notRunning: ["b"],
  },
  "a sidecar is resized, an init container is not": {
    before: {
      initContainers: [
        container("init", sized("1/1", "1Gi/1Gi")),
        container("proxy", sized("1/1", "1Gi/1Gi"), { restartPolicy: "Always" }),
      ],
      containers: [container("a", sized("1/1", "1Gi/1Gi"))],
    },
    after: {
      initContainers: [
        container("init", sized("1500m/1500m", "1Gi/1Gi")),
        container("proxy", sized("2/2", "1Gi/1Gi"), { restartPolicy: "Always" }),
      ],
      containers: [container("a", sized("1/1", "1Gi/1Gi"))],
    },
  },
  "the pod's own limit is the limit of a container without one": {
    before: { ...one({}), resources: sized("1/1", "1Gi/1Gi") },
    after: { ...one({}), resources: sized("2/2", "1Gi/1Gi") },
  },
  "memory in use above the new limits": {
    before: one(sized("1/2", "1Gi/2Gi")),
    after: one(sized("1/2", "1Gi/1Gi")),
    memoryUsage: { pod: 1200 * MI, containers: { a: 1100 * MI } },
  },
  "memory in use exactly at the limit": {
    before: one(sized("1/2", "1Gi/2Gi")),
    after: one(sized("1/2", "1Gi/1Gi")),
    memoryUsage: { pod: 1023 * MI, containers: { a: 1024 * MI } },
  },
  "a container restarts for less memory than it uses": {
    before: one(sized("1/2", "1Gi/2Gi"), { resizePolicy: restartFor("memory") }),
    after: one(sized("1/2", "1Gi/1Gi"), { resizePolicy: restartFor("memory") }),
    memoryUsage: { pod: 1200 * MI, containers: { a: 1100 * MI } },
  },
  "memory in use is unknown": {
    before: one(sized("1/2", "1Gi/2Gi")),
    after: one(sized("1/2", "1Gi/1Gi")),
    memoryUsage: { containers: {} },
  },
  "memory in use does not matter where nothing is lowered": {
    before: one(sized("1/2", "1Gi/2Gi")),
    after: one(sized("1/2", "1Gi/3Gi")),
    memoryUsage: { containers: {} },
  },
};

test("the course of a resize, step by step", () => {
  const lines = Object.entries(plays).flatMap(([sentence, given]) => [
    `${sentence}:`,
    ...course(given).map((line) => `  ${line}`),
  ]);
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    nothing to do:
    both resources grow:
      update pod sandbox resources: memory.max 3221225472, cpu.weight 39, cpu.max 200000 100000
      write the pod's cgroup: memory.max 3221225472
      update container a: memory request 2147483648, limit 3221225472; cpu request 1000m, limit 2000m
      update pod sandbox resources: memory.max 3221225472, cpu.weight 39, cpu.max 300000 100000
      write the pod's cgroup: cpu.max 300000 100000
      update pod sandbox resources: memory.max 3221225472, cpu.weight 79, cpu.max 300000 100000
      write the pod's cgroup: cpu.weight 79
      update container a: memory request 2147483648, limit 3221225472; cpu request 2000m, limit 3000m
    both resources shrink:
      update container a: memory request 1073741824, limit 2147483648; cpu request 2000m, limit 3000m
      update pod sandbox resources: memory.max 2147483648, cpu.weight 79, cpu.max 300000 100000
      write the pod's cgroup: memory.max 2147483648
      update container a: memory request 1073741824, limit 2147483648; cpu request 1000m, limit 2000m
      update pod sandbox resources: memory.max 2147483648, cpu.weight 39, cpu.max 300000 100000
      write the pod's cgroup: cpu.weight 39
      update pod sandbox resources: memory.max 2147483648, cpu.weight 39, cpu.max 200000 100000
      write the pod's cgroup: cpu.max 200000 100000
    memory grows, CPU shrinks:
      update pod sandbox resources: memory.max 2147483648, cpu.weight 79, cpu.max 200000 100000
      write the pod's cgroup: memory.max 2147483648
      update container a: memory request 2147483648, limit 2147483648; cpu request 2000m, limit 2000m
      update container a: memory request 2147483648, limit 2147483648; cpu request 1000m, limit 1000m
      update pod sandbox resources: memory.max 2147483648, cpu.weight 39, cpu.max 200000 100000
      write the pod's cgroup: cpu.weight 39
      update pod sandbox resources: memory.max 2147483648, cpu.weight 39, cpu.max 100000 100000
      write the pod's cgroup: cpu.max 100000 100000
    a request alone:
      update container a: memory request 536870912, limit 2147483648; cpu request 1000m, limit 2000m
      update container a: memory request 536870912, limit 2147483648; cpu request 500m, limit 2000m
      update pod sandbox resources: memory.max 2147483648, cpu.weight 20, cpu.max 200000 100000
      write the pod's cgroup: cpu.weight 20
    two containers shrink and one grows, by more:
      update pod sandbox resources: memory.max 3221225472, cpu.weight 118, cpu.max 370000 100000
      write the pod's cgroup: cpu.max 370000 100000
      update pod sandbox resources: memory.max 3221225472, cpu.weight 145, cpu.max 370000 100000
      write the pod's cgroup: cpu.weight 145
      update container b: memory request 1073741824, limit 1073741824; cpu request 800m, limit 800m
      update container a: memory request 1073741824, limit 1073741824; cpu request 900m, limit 900m
      update container c: memory request 1073741824, limit 1073741824; cpu request 2000m, limit 2000m
    two containers grow and one shrinks, by more:
      update container b: memory request 1073741824, limit 1073741824; cpu request 500m, limit 500m
      update container a: memory request 1073741824, limit 1073741824; cpu request 1100m, limit 1100m
      update container c: memory request 1073741824, limit 1073741824; cpu request 1200m, limit 1200m
      update pod sandbox resources: memory.max 3221225472, cpu.weight 110, cpu.max 400000 100000
      write the pod's cgroup: cpu.weight 110
      update pod sandbox resources: memory.max 3221225472, cpu.weight 110, cpu.max 280000 100000
      write the pod's cgroup: cpu.max 280000 100000
    the pod without a cgroup of its own:
      update container a: memory request 2147483648, limit 3221225472; cpu request 1000m, limit 2000m
      update container a: memory request 2147483648, limit 3221225472; cpu request 2000m, limit 3000m
    a limit is added:
      update container a: memory request 1073741824, limit 2147483648; cpu request 1000m, limit -
      update pod sandbox resources: memory.max 2147483648, cpu.weight 39, cpu.max max 100000
      write the pod's cgroup: memory.max 2147483648
      update container a: memory request 1073741824, limit 2147483648; cpu request 1000m, limit 2000m
      update pod sandbox resources: memory.max 2147483648, cpu.weight 39, cpu.max 200000 100000
      write the pod's cgroup: cpu.max 200000 100000
    a limit is removed:
      update pod sandbox resources: memory.max max, cpu.weight 39, cpu.max 200000 100000
      write the pod's cgroup: memory.max max
      update container a: memory request 1073741824, limit -; cpu request 1000m, limit 2000m
      update pod sandbox resources: memory.max max, cpu.weight 39, cpu.max max 100000
      write the pod's cgroup: cpu.max max 100000
      update container a: memory request 1073741824, limit -; cpu request 1000m, limit -
    a container restarts for memory:
      update pod sandbox resources: memory.max 3221225472, cpu.weight 39, cpu.max 200000 100000
      write the pod's cgroup: memory.max 3221225472
      stop container a: Container a resize requires restart
    a container that restarts for memory gets CPU without:
      update pod sandbox resources: memory.max 2147483648, cpu.weight 39, cpu.max 300000 100000
      write the pod's cgroup: cpu.max 300000 100000
      update pod sandbox resources: memory.max 2147483648, cpu.weight 79, cpu.max 300000 100000
      write the pod's cgroup: cpu.weight 79
      update container a: memory request 1073741824, limit 2147483648; cpu request 2000m, limit 3000m
    a container that does not run is left alone:
      update pod sandbox resources: memory.max 3221225472, cpu.weight 118, cpu.max 500000 100000
      write the pod's cgroup: cpu.max 500000 100000
      update pod sandbox resources: memory.max 3221225472, cpu.weight 196, cpu.max 500000 100000
      write the pod's cgroup: cpu.weight 196
      update container a: memory request 1073741824, limit 1073741824; cpu request 2000m, limit 2000m
    a sidecar is resized, an init container is not:
      update pod sandbox resources: memory.max 2147483648, cpu.weight 79, cpu.max 300000 100000
      write the pod's cgroup: cpu.max 300000 100000
      update pod sandbox resources: memory.max 2147483648, cpu.weight 118, cpu.max 300000 100000
      write the pod's cgroup: cpu.weight 118
      update container proxy: memory request 1073741824, limit 1073741824; cpu request 2000m, limit 2000m
    the pod's own limit is the limit of a container without one:
      update pod sandbox resources: memory.max 1073741824, cpu.weight 39, cpu.max 200000 100000
      write the pod's cgroup: cpu.max 200000 100000
      update pod sandbox resources: memory.max 1073741824, cpu.weight 79, cpu.max 200000 100000
      write the pod's cgroup: cpu.weight 79
      update container a: memory request -, limit 1073741824; cpu request -, limit 2000m
    memory in use above the new limits:
      problem: cannot decrease memory limits: [attempting to set pod memory limit (1073741824) below current usage (1258291200), attempting to set container "a" memory limit (1073741824) below current usage (1153433600)]
    memory in use exactly at the limit:
      problem: cannot decrease memory limits: attempting to set container "a" memory limit (1073741824) below current usage (1073741824)
    a container restarts for less memory than it uses:
      stop container a: Container a resize requires restart
      problem: cannot decrease memory limits: attempting to set pod memory limit (1073741824) below current usage (1258291200)
    memory in use is unknown:
      problem: cannot decrease memory limits: [missing pod memory usage, missing container "a" memory usage]
    memory in use does not matter where nothing is lowered:
      update pod sandbox resources: memory.max 3221225472, cpu.weight 39, cpu.max 200000 100000
      write the pod's cgroup: memory.max 3221225472
      update container a: memory request 1073741824, limit 3221225472; cpu request 1000m, limit 2000m
    "
  `);
});

test("the whole plan is the course that the single steps take", () => {
  for (const given of Object.values(plays)) {
    const plan = planResize(inputOf(given));
    const stops = course(given).some((line) => line.startsWith("problem"));
    if ("steps" in plan && !stops) expect(plan.steps.map(describeStep)).toEqual([...course(given)]);
  }
});

test("the pod's cgroup never has less than its containers together", () => {
  for (const given of Object.values(plays)) {
    if (given.hasNoCgroup || given.before.initContainers) continue;
    const plan = planResize(inputOf(given));
    let pod = limitsOf(given.before);
    let containers = amountsOf(given.before);
    const stopped = new Set(given.notRunning);
    for (const step of "steps" in plan ? plan.steps : []) {
      if (step.kind === "writePodCgroup") pod = { ...pod, ...step.limits };
      if (step.kind === "stopContainer") stopped.add(step.name);
      if (step.kind === "updateContainerResources") containers = { ...containers, [step.name]: step.amounts };
      const running = Object.entries(containers).filter(([name]) => !stopped.has(name));
      const sum = (of: (amounts: ContainerAmounts) => number) => running.reduce((all, [, each]) => all + of(each), 0);
      if (pod.memoryMax !== "max") expect(sum((each) => each.memoryLimit)).toBeLessThanOrEqual(pod.memoryMax);
      if (pod.cpuMax.quotaUs !== "max")
        expect(sum((each) => each.cpuLimit) * 100).toBeLessThanOrEqual(pod.cpuMax.quotaUs);
    }
  }
});

test("a pod whose resize is complete has no steps, whatever its cgroup has", () => {
  const spec = one(sized("1/1", "1Gi/1Gi"));
  const { started: _done, ...allocation } = inputOf({ before: spec, after: spec }).allocation;
  const podCgroup = { current: { ...limitsOf(spec), cpuWeight: 1 }, target: limitsOf(spec) };
  expect(planResize({ ...inputOf({ before: spec, after: spec }), allocation, podCgroup })).toEqual({ steps: [] });
});
