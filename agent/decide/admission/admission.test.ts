import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { Container, Node, NodeSelectorRequirement, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { observedMachine, nodeSettings as settings } from "../../../test/fakes/observed-node.ts";
import { createNodeUsage } from "../../desired/node-usage.ts";
import type { ObservedMachine } from "../node/observed-node.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { type AdmissionInput, admitPod, byCreationTime, withInitialAdmission } from "./admission.ts";
import { type AdmissionNodeSettings, toAdmissionNode } from "./admission-node.ts";

interface Given extends Partial<PodSpec> {
  readonly isStatic?: boolean;
  readonly labels?: Readonly<Record<string, string>>;
  readonly more?: Partial<DesiredPod>;
}

let number = 0;

function pod({ isStatic = false, labels = {}, more = {}, ...spec }: Given = {}): DesiredPod {
  const uid = `pod-${number++}` as PodUid;
  const apiPod: Pod = { metadata: { uid, name: uid, labels }, spec: { containers: [asking({})], ...spec } };
  const source = isStatic ? ({ kind: "file", path: "/m" } as const) : ({ kind: "api" } as const);
  return { uid, pod: apiPod, source, acceptedAt: 0, revision: 0, ...more };
}

const asking = (requests: Readonly<Record<string, string>>, more: Partial<Container> = {}): Container => ({
  name: "a",
  image: "busybox:1",
  resources: { requests },
  ...more,
});
const port = (hostPort: number, hostIP?: string, protocol: "TCP" | "UDP" = "TCP"): Given => ({
  containers: [
    asking({}, { ports: [{ containerPort: 80, hostPort, protocol, ...(hostIP === undefined ? {} : { hostIP }) }] }),
  ],
});
const cpu = (amount: string): Given => ({ containers: [asking({ cpu: amount })] });
const memory = (amount: string): Given => ({ containers: [asking({ memory: amount })] });
const dongles = (amount: string): Given => ({ containers: [asking({ "example.com/dongle": amount })] });
const confined = (type: "RuntimeDefault" | "Localhost" | "Unconfined", requests = {}) => ({
  containers: [asking(requests, { securityContext: { appArmorProfile: { type } } })],
});
const times = (count: number, given: Given = {}) => Array.from({ length: count }, () => pod(given));

const reportedNode: Node = {
  metadata: { name: "node-a", labels: { disk: "ssd", cores: "4", zone: "" } },
  spec: { taints: [{ key: "broken", value: "yes", effect: "NoExecute" }] },
  status: { capacity: { "example.com/dongle": "2" }, allocatable: { "example.com/dongle": "2" } },
};
const none = { "example.com/dongle": "0" };
const without: Node = { ...reportedNode, status: { capacity: none, allocatable: none } };
const tolerations = [{ operator: "Exists" as const }];

const strict: Given = { securityContext: { supplementalGroupsPolicy: "Strict" } };
const groups = "SupplementalGroupsPolicyNotSupported: SupplementalGroupsPolicy=Strict is not supported in this node";
const os = "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS";
const noAppArmor = { hasAppArmor: false };
const appArmor = "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host";

const restartAll =
  "PodFeatureUnsupported: Pod requires node features that are not available: RestartAllContainersOnContainerExits";
const restartsAll: Given = {
  initContainers: [
    {
      name: "first",
      image: "busybox:1",
      restartPolicy: "Never",
      restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [88] } }],
    },
  ],
};

interface Fixture extends Partial<Omit<AdmissionInput, "node" | "usage">> {
  readonly others?: readonly DesiredPod[];
  readonly reportedNode?: Node | "unknown";
  readonly settings?: Partial<AdmissionNodeSettings>;
  readonly machine?: Partial<ObservedMachine>;
}

/** A node with four CPUs, 8 GiB of memory less its reservations, and 64 GiB of storage. */
function admissionOf(desired: DesiredPod, fixture: Fixture = {}): string {
  const { others = [], settings: more, reportedNode: reported, machine, ...known } = fixture;
  const nodeUsage = createNodeUsage();
  for (const other of others) nodeUsage.update(other);
  const node = toAdmissionNode(reported, { ...observedMachine, ...machine }, { ...settings, ...more });
  const { usage } = nodeUsage;
  const input = {
    node,
    usage,
    isNodeUpToDate: true,
    arePreviousPodsObserved: true,
    supportsGroupsPolicy: true,
    ...known,
  };
  const result = admitPod(desired, input);
  return typeof result === "string" ? result : `${result.reason}: ${result.message}`;
}

const outOf = (resource: string, requested: bigint | number, used: bigint | number, capacity: bigint | number) =>
  `OutOf${resource}: Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`;
const unmet = (missing: string) =>
  `UnexpectedAdmissionError: Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [${missing}]`;
const devices = "PodFeatureUnsupported: Pod requires node features that are not available: extended resources";
const affinity = "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
const ports = "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
const taints = "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
const ending = { requestedAt: 0, gracePeriodSeconds: 1, why: "it was deleted" };
const MEMORY = 8n * 2n ** 30n - 100n * 2n ** 20n;

const rows: readonly [name: string, desired: DesiredPod, fixture: Fixture, says: string][] = [
  ["an empty node admits a pod", pod(), {}, "admitted"],
  ["the last free pod slot admits a pod", pod(), { others: times(109) }, "admitted"],
  ["a full node rejects a pod", pod(), { others: times(110) }, outOf("pods", 1, 110, 110)],
  [
    "podsPerCore limits the number of pods",
    pod(),
    { others: times(8), settings: { maxPods: 110, podsPerCore: 2 } },
    outOf("pods", 1, 8, 8),
  ],
  [
    "a pod without an admission result does not count",
    pod(),
    { others: times(110, { more: { admission: { kind: "awaited" } } }) },
    "admitted",
  ],
  [
    "a terminated pod does not count",
    pod(),
    { others: times(110, { more: { hasReleasedResources: true } }) },
    "admitted",
  ],
  [
    "a deleted pod of the API counts until it has ended",
    pod(),
    { others: times(110, { more: { termination: ending } }) },
    outOf("pods", 1, 110, 110),
  ],
  [
    "a static pod whose manifest is gone does not count",
    pod(),
    { others: times(110, { isStatic: true, more: { termination: ending } }) },
    "admitted",
  ],
  [
    "a pod without requests fits on a node whose CPUs are all requested",
    pod(),
    { others: [pod(cpu("4"))] },
    "admitted",
  ],
  ["a pod may request all remaining CPU", pod(cpu("500m")), { others: [pod(cpu("3500m"))] }, "admitted"],
  [
    "a pod that requests a millicore too much is rejected",
    pod(cpu("501m")),
    { others: [pod(cpu("3500m"))] },
    outOf("cpu", 501, 3500, 4000),
  ],
  [
    "less than a millicore is rounded up to one",
    pod(cpu("100u")),
    { others: [pod(cpu("4"))] },
    outOf("cpu", 1, 4000, 4000),
  ],
  [
    "the eviction threshold reduces the allocatable memory",
    pod(memory("8Gi")),
    {},
    outOf("memory", 8n * 2n ** 30n, 0, MEMORY),
  ],
  [
    "the reservations reduce the allocatable memory",
    pod(memory("7Gi")),
    { settings: { kubeReserved: { memory: "1Gi" } } },
    outOf("memory", 7n * 2n ** 30n, 0, MEMORY - 2n ** 30n),
  ],
  [
    "storage",
    pod({ containers: [asking({ "ephemeral-storage": "60Gi" })] }),
    {},
    outOf("ephemeral-storage", 60n * 2n ** 30n, 0, 61_847_528_960n),
  ],
  [
    "the first of several failures is reported",
    pod({ containers: [asking({ cpu: "5", memory: "9Gi" })] }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "a missing pod slot is reported before all other resources",
    pod(cpu("5")),
    { others: times(110) },
    outOf("pods", 1, 110, 110),
  ],
  [
    "the requests of all containers are added up",
    pod({ containers: [asking({ cpu: "3" }), asking({ cpu: "2" })] }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "an init container's request alone may be too much",
    pod({ initContainers: [asking({ cpu: "5" })] }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "init containers and app containers are not added up",
    pod({ ...cpu("3"), initContainers: [asking({ cpu: "3" })] }),
    {},
    "admitted",
  ],
  [
    "sidecars and app containers are added up",
    pod({ ...cpu("3"), initContainers: [asking({ cpu: "2" }, { restartPolicy: "Always" })] }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "the overhead of the RuntimeClass is added",
    pod({ ...cpu("4"), overhead: { cpu: "250m" } }),
    {},
    outOf("cpu", 4250, 0, 4000),
  ],
  [
    "a pod-level request replaces the sum",
    pod({ ...cpu("1"), resources: { requests: { cpu: "5" } } }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "too much of an extended resource of the Node is rejected",
    pod({ containers: [asking({ "example.com/dongle": "3" })], tolerations }),
    { reportedNode },
    outOf("example.com/dongle", 3, 0, 2),
  ],
  [
    "an API pod with enough of an extended resource is admitted without devices",
    pod({ ...dongles("2"), tolerations }),
    { reportedNode },
    "admitted",
  ],
  ["an extended resource that the Node does not have is ignored", pod(dongles("3")), {}, "admitted"],
  [
    "a static pod with an extended resource is rejected",
    pod({ ...dongles("2"), isStatic: true }),
    { reportedNode },
    devices,
  ],
  [
    "an extended resource that the Node does not have any more is rejected",
    pod({ ...dongles("1"), tolerations }),
    { reportedNode: without },
    outOf("example.com/dongle", 1, 0, 0),
  ],
  ["an unreadable quantity counts as zero", pod(cpu("much")), {}, "admitted"],

  ["a host port in use is rejected", pod(port(80)), { others: [pod(port(80))] }, ports],
  ["another host port is admitted", pod(port(81)), { others: [pod(port(80))] }, "admitted"],
  [
    "the same host port of another protocol is admitted",
    pod(port(80, undefined, "UDP")),
    { others: [pod(port(80))] },
    "admitted",
  ],
  [
    "the same host port on another address is admitted",
    pod(port(80, "192.0.2.1")),
    { others: [pod(port(80, "192.0.2.2"))] },
    "admitted",
  ],
  [
    "the same port and address are rejected",
    pod(port(80, "192.0.2.1")),
    { others: [pod(port(80, "192.0.2.1"))] },
    ports,
  ],
  [
    "an address conflicts with a port on all addresses",
    pod(port(80, "192.0.2.1")),
    { others: [pod(port(80, "0.0.0.0"))] },
    ports,
  ],
  ["all addresses conflict with a port on one address", pod(port(80)), { others: [pod(port(80, "192.0.2.1"))] }, ports],
  ["a static pod's host port is checked too", pod({ ...port(80), isStatic: true }), { others: [pod(port(80))] }, ports],

  ["nodeSelector matches a label", pod({ nodeSelector: { disk: "ssd" }, tolerations }), { reportedNode }, "admitted"],
  [
    "nodeSelector with another value is rejected",
    pod({ nodeSelector: { disk: "tape" }, tolerations }),
    { reportedNode },
    affinity,
  ],
  [
    "nodeSelector matches an empty label",
    pod({ nodeSelector: { zone: "" }, tolerations }),
    { reportedNode },
    "admitted",
  ],
  [
    "nodeSelector with a missing label is rejected",
    pod({ nodeSelector: { gone: "" }, tolerations }),
    { reportedNode },
    affinity,
  ],
  [
    "nodeSelector with a JavaScript property name is rejected",
    pod({ nodeSelector: { constructor: "" }, tolerations }),
    { reportedNode },
    affinity,
  ],
  [
    "insufficient resources are reported before labels",
    pod({ ...cpu("5"), nodeSelector: { disk: "tape" } }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "another nodeName is rejected",
    pod({ nodeName: "node-b" }),
    {},
    "NodeName: Predicate NodeName failed: node(s) didn't match the requested node name",
  ],
  ["a NoExecute taint rejects a pod", pod(), { reportedNode }, taints],
  [
    "a tolerated taint admits the pod",
    pod({ tolerations: [{ key: "broken", operator: "Equal", value: "yes" }] }),
    { reportedNode },
    "admitted",
  ],
  [
    "a toleration with another value does not match",
    pod({ tolerations: [{ key: "broken", value: "no" }] }),
    { reportedNode },
    taints,
  ],
  [
    "a toleration with another effect does not match",
    pod({ tolerations: [{ key: "broken", operator: "Exists", effect: "NoSchedule" }] }),
    { reportedNode },
    taints,
  ],
  [
    "a toleration with tolerationSeconds matches",
    pod({ tolerations: [{ key: "broken", operator: "Exists", effect: "NoExecute", tolerationSeconds: 3 }] }),
    { reportedNode },
    "admitted",
  ],
  ["no taint rejects a static pod", pod({ isStatic: true }), { reportedNode }, "admitted"],
  [
    "taints of other effects are ignored",
    pod(),
    { reportedNode: { metadata: {}, spec: { taints: [{ key: "a", effect: "NoSchedule" }] } } },
    "admitted",
  ],

  ["another operating system is rejected", pod({ os: { name: "windows" } }), { others: times(110) }, os],
  [
    "another operating system label is rejected",
    pod({ labels: { "kubernetes.io/os": "windows" } }),
    {},
    "PodOSSelectorNodeLabelDoesNotMatch: Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
  ],
  ["supplementalGroupsPolicy Strict is admitted if the runtime supports it", pod(strict), {}, "admitted"],
  [
    "supplementalGroupsPolicy Strict without support is reported before other failures",
    pod(strict),
    { supportsGroupsPolicy: false, others: times(110) },
    groups,
  ],
  [
    "supplementalGroupsPolicy Strict is rejected if the runtime does not report support",
    pod({ isStatic: true, ...strict }),
    { supportsGroupsPolicy: undefined },
    groups,
  ],
  [
    "supplementalGroupsPolicy Merge needs no support",
    pod({ securityContext: { supplementalGroupsPolicy: "Merge" } }),
    { supportsGroupsPolicy: undefined },
    "admitted",
  ],
  [
    "another operating system is reported before supplementalGroupsPolicy",
    pod({ os: { name: "windows" }, ...strict }),
    { supportsGroupsPolicy: false },
    os,
  ],
  [
    "an AppArmor profile without AppArmor on the host is rejected",
    pod(confined("RuntimeDefault")),
    { machine: noAppArmor },
    appArmor,
  ],
  [
    "a pod-level AppArmor profile is rejected too",
    pod({ securityContext: { appArmorProfile: { type: "RuntimeDefault" } } }),
    { machine: noAppArmor },
    appArmor,
  ],
  [
    "a pod-level AppArmor profile that every container overrides is rejected too",
    pod({ securityContext: { appArmorProfile: { type: "RuntimeDefault" } }, ...confined("Unconfined") }),
    { machine: noAppArmor },
    appArmor,
  ],
  [
    "an init container's AppArmor profile is rejected too",
    pod({ initContainers: confined("Localhost").containers }),
    { machine: noAppArmor },
    appArmor,
  ],
  [
    "a static pod with an AppArmor profile is rejected too",
    pod({ isStatic: true, ...confined("RuntimeDefault") }),
    { machine: noAppArmor },
    appArmor,
  ],
  [
    "insufficient resources are reported before AppArmor",
    pod({ ...confined("RuntimeDefault", { cpu: "5" }) }),
    { machine: noAppArmor },
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "an Unconfined profile is admitted without AppArmor",
    pod(confined("Unconfined")),
    { machine: noAppArmor },
    "admitted",
  ],
  ["an AppArmor profile is admitted with AppArmor", pod(confined("RuntimeDefault")), {}, "admitted"],

  ["a pod with a RestartAllContainers rule is admitted", pod(restartsAll), {}, "admitted"],
  [
    "a RestartAllContainers rule is rejected if its gate is off",
    pod(restartsAll),
    { settings: { declaredFeatures: [] } },
    restartAll,
  ],
  [
    "a static pod's RestartAllContainers rule is rejected too",
    pod({ isStatic: true, ...restartsAll }),
    { settings: { declaredFeatures: [] } },
    restartAll,
  ],
  ["other pods do not need that gate", pod(), { settings: { declaredFeatures: [] } }, "admitted"],

  [
    "a pod for Linux is admitted",
    pod({ os: { name: "linux" }, labels: { "kubernetes.io/os": "linux" } }),
    {},
    "admitted",
  ],

  [
    "a static pod preempts a pod of the API",
    pod({ isStatic: true, ...cpu("1") }),
    { others: [pod(cpu("4"))] },
    "admitted",
  ],
  [
    "a static pod preempts where only the pod limit is reached",
    pod({ isStatic: true }),
    { others: times(110) },
    "admitted",
  ],
  [
    "a static pod does not preempt other static pods",
    pod({ isStatic: true, ...cpu("1") }),
    { others: [pod({ isStatic: true, ...cpu("3500m") })] },
    unmet("(res: cpu, q: 500), "),
  ],
  [
    "preemption does not help if the node itself is too small",
    pod({ isStatic: true, containers: [asking({ cpu: "5", memory: "9Gi" })] }),
    { others: [pod(cpu("4"))] },
    unmet(`(res: cpu, q: 1000), (res: memory, q: ${9n * 2n ** 30n - MEMORY}), `),
  ],
  [
    "a critical pod of the API preempts too",
    pod({ ...cpu("1"), priority: 2_000_000_000 }),
    { others: [pod(cpu("4"))] },
    "admitted",
  ],
  [
    "a pod of a lower priority is not critical",
    pod({ ...cpu("1"), priority: 1_999_999_999 }),
    { others: [pod(cpu("4"))] },
    outOf("cpu", 1000, 4000, 4000),
  ],
  [
    "a critical pod preempts a critical pod of a lower priority",
    pod({ ...cpu("1"), priority: 2_000_001_000 }),
    { others: [pod({ ...cpu("4"), priority: 2_000_000_000 })] },
    "admitted",
  ],
  [
    "a critical pod does not preempt one of the same priority",
    pod({ ...cpu("1"), priority: 2_000_000_000 }),
    { others: [pod({ ...cpu("4"), priority: 2_000_000_000 })] },
    unmet("(res: cpu, q: 1000), "),
  ],
  [
    "preemption does not help against other failures",
    pod({ ...port(80), isStatic: true }),
    { others: [...times(109), pod(port(80))] },
    ports,
  ],

  ["a pod of the API waits for the Node object", pod(), { reportedNode: "unknown" }, "wait"],
  ["a static pod does not wait for the Node object", pod({ isStatic: true }), { reportedNode: "unknown" }, "admitted"],
  [
    "a static pod with a nodeSelector waits for the Node object",
    pod({ isStatic: true, nodeSelector: { disk: "ssd" } }),
    { reportedNode: "unknown" },
    "wait",
  ],
  [
    "the agent's own labels are known without the Node object",
    pod({ isStatic: true, nodeSelector: { "kubernetes.io/hostname": "node-a" } }),
    { reportedNode: "unknown" },
    "admitted",
  ],
  ["a standalone node has only its own labels", pod({ isStatic: true, nodeSelector: { disk: "ssd" } }), {}, affinity],
  [
    "a standalone node has the labels of --node-labels",
    pod({ isStatic: true, nodeSelector: { disk: "ssd" } }),
    { settings: { labels: { disk: "ssd" } } },
    "admitted",
  ],
  [
    "a label mismatch reads the Node again before the rejection",
    pod({ nodeSelector: { disk: "tape" }, tolerations }),
    { reportedNode, isNodeUpToDate: false },
    "readNode",
  ],
  [
    "a failure without labels does not read the Node again",
    pod({ ...cpu("5"), tolerations }),
    { reportedNode, isNodeUpToDate: false },
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "no pod is rejected while unobserved pods may have ended",
    pod(),
    { others: times(110), arePreviousPodsObserved: false },
    "wait",
  ],
  [
    "no port conflict is reported while unobserved pods may have ended",
    pod(port(80)),
    { others: [pod(port(80))], arePreviousPodsObserved: false },
    "wait",
  ],
  [
    "a pod that fits beside all unobserved pods is admitted at once",
    pod(),
    { others: times(109), arePreviousPodsObserved: false },
    "admitted",
  ],
];
for (const [name, desired, input, expected] of rows)
  test(`admission: ${name}`, () => expect(admissionOf(desired, input)).toBe(expected));

const terms = (...nodeSelectorTerms: readonly object[]): Given => ({
  tolerations,
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
});
const matching = (...matchExpressions: readonly (readonly [string, string, ...string[]])[]) => ({
  matchExpressions: matchExpressions.map(([key, operator, ...values]) => ({ key, operator, values })),
});
const fields = (operator: NodeSelectorRequirement["operator"], ...values: readonly string[]) => ({
  matchFields: [{ key: "metadata.name", operator, values }],
});

/** The node has the labels `disk=ssd`, `cores=4` and an empty `zone`. */
const affinities: readonly [name: string, given: Given, isMet: boolean][] = [
  ["In with its value", terms(matching(["disk", "In", "tape", "ssd"])), true],
  ["NotIn without its value", terms(matching(["disk", "NotIn", "tape"])), true],
  ["NotIn with its value", terms(matching(["disk", "NotIn", "ssd"])), false],
  ["NotIn of a missing label", terms(matching(["gone", "NotIn", "x"])), true],
  ["Exists of an existing label", terms(matching(["zone", "Exists"])), true],
  ["DoesNotExist of a missing label", terms(matching(["gone", "DoesNotExist"])), true],
  ["DoesNotExist of an existing label", terms(matching(["disk", "DoesNotExist"])), false],
  ["Gt a lower value", terms(matching(["cores", "Gt", "3"])), true],
  ["Gt an equal value", terms(matching(["cores", "Gt", "4"])), false],
  ["Lt a higher value", terms(matching(["cores", "Lt", "10"])), true],
  ["Lt of a label that is no number", terms(matching(["disk", "Lt", "10"])), false],
  [
    "two requirements, one of which does not match",
    terms(matching(["disk", "In", "ssd"], ["cores", "Gt", "5"])),
    false,
  ],
  ["two terms, one of which matches", terms(matching(["disk", "In", "tape"]), matching(["cores", "Exists"])), true],
  ["an empty term", terms({}), false],
  ["no term", terms(), false],
  ["a malformed requirement", terms(matching(["disk", "NotIn"])), false],
  ["an unknown operator", terms(matching(["disk", "Like", "s*"])), false],
  ["the field metadata.name In its name", terms(fields("In", "node-a")), true],
  ["the field metadata.name In another name", terms(fields("In", "node-b")), false],
  ["the field metadata.name NotIn another name", terms(fields("NotIn", "node-b")), true],
  ["the field metadata.name In two names", terms(fields("In", "node-a", "node-b")), false],
  [
    "nodeSelector and affinity, one of which does not match",
    { ...terms(matching(["disk", "In", "ssd"])), nodeSelector: { disk: "tape" } },
    false,
  ],
];
for (const [name, given, isMet] of affinities)
  test(`node affinity with ${name} ${isMet ? "matches" : "does not match"} the node`, () => {
    expect(admissionOf(pod(given), { reportedNode })).toBe(isMet ? "admitted" : affinity);
  });

const entries: readonly [name: string, desired: DesiredPod, status: Pod["status"], says: string][] = [
  ["a new pod waits for admission", pod(), undefined, "awaited"],
  [
    "a pod that the scheduler has just bound waits for admission",
    pod(),
    { phase: "Pending", conditions: [] },
    "awaited",
  ],
  [
    "a pod with a startTime counts as admitted",
    pod(),
    { phase: "Pending", startTime: "2026-01-01T00:00:00Z" },
    "taken",
  ],
  ["a terminated pod releases its resources", pod(), { phase: "Failed", startTime: "2026-01-01T00:00:00Z" }, "free"],
  ["the status in a manifest is ignored", pod({ isStatic: true }), { startTime: "2026-01-01T00:00:00Z" }, "awaited"],
];
for (const [name, desired, status, expected] of entries)
  test(name, () => {
    const { admission, hasReleasedResources } = withInitialAdmission({
      ...desired,
      pod: { ...desired.pod, ...(status && { status }) },
    });
    expect(hasReleasedResources ? "free" : (admission?.kind ?? "taken")).toBe(expected);
  });

test("admission goes from the oldest pod to the newest, static pods first, equals in their order", () => {
  const born = (name: string, creationTimestamp?: string): DesiredPod => {
    const own = pod();
    const metadata = { name, ...(creationTimestamp === undefined ? {} : { creationTimestamp }) };
    return { ...own, pod: { ...own.pod, metadata } };
  };
  const all = [
    born("c", "2026-01-01T00:00:02Z"),
    born("b", "2026-01-01T00:00:01Z"),
    born("a", "2026-01-01T00:00:01Z"),
    born("static"),
  ];
  expect(all.toSorted(byCreationTime).map((each) => each.pod.metadata.name)).toEqual(["static", "b", "a", "c"]);
});
