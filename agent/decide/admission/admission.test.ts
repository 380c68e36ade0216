import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { Container, Node, NodeSelectorRequirement, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { observedMachine, nodeSettings as settings } from "../../../test/fakes/observed-node.ts";
import type { ObservedMachine } from "../node/observed-node.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { type AdmissionScene, answerTo, byAge, entered } from "./admission.ts";
import { type AdmittingSettings, admittingNode } from "./admission-node.ts";
import { createPlaces } from "./node-usage.ts";

interface Given extends Partial<PodSpec> {
  readonly isStatic?: boolean;
  readonly labels?: Readonly<Record<string, string>>;
  readonly more?: Partial<DesiredPod>;
}

let number = 0;

function pod({ isStatic = false, labels = {}, more = {}, ...spec }: Given = {}): DesiredPod {
  const uid = `pod-${number++}` as PodUid;
  const wanted: Pod = { metadata: { uid, name: uid, labels }, spec: { containers: [asking({})], ...spec } };
  const source = isStatic ? ({ kind: "file", path: "/m" } as const) : ({ kind: "api" } as const);
  return { uid, pod: wanted, source, acceptedAt: 0, revision: 0, ...more };
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

const told: Node = {
  metadata: { name: "node-a", labels: { disk: "ssd", cores: "4", zone: "" } },
  spec: { taints: [{ key: "broken", value: "yes", effect: "NoExecute" }] },
  status: { capacity: { "example.com/dongle": "2" }, allocatable: { "example.com/dongle": "2" } },
};
const none = { "example.com/dongle": "0" };
const without: Node = { ...told, status: { capacity: none, allocatable: none } };
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

interface Scene extends Partial<Omit<AdmissionScene, "node" | "occupancy">> {
  readonly others?: readonly DesiredPod[];
  readonly told?: Node | "unknown";
  readonly settings?: Partial<AdmittingSettings>;
  readonly machine?: Partial<ObservedMachine>;
}

/** A node of four CPUs, 8 GiB less what is reserved, and 64 of storage. */
function say(desired: DesiredPod, told: Scene = {}): string {
  const { others = [], settings: more, told: of, machine, ...known } = told;
  const places = createPlaces();
  for (const other of others) places.note(other);
  const node = admittingNode(of, { ...observedMachine, ...machine }, { ...settings, ...more });
  const { occupancy } = places;
  const scene = { node, occupancy, isNodeFresh: true, areOthersSeen: true, canLeaveOutGroups: true, ...known };
  const answer = answerTo(desired, scene);
  return typeof answer === "string" ? answer : `${answer.reason}: ${answer.message}`;
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

const rows: readonly [name: string, desired: DesiredPod, scene: Scene, says: string][] = [
  ["an empty node takes a pod", pod(), {}, "admitted"],
  ["the last place is one", pod(), { others: times(109) }, "admitted"],
  ["there is none behind it", pod(), { others: times(110) }, outOf("pods", 1, 110, 110)],
  [
    "places may go by cores",
    pod(),
    { others: times(8), settings: { maxPods: 110, podsPerCore: 2 } },
    outOf("pods", 1, 8, 8),
  ],
  ["a rejected pod has none", pod(), { others: times(110, { more: { admission: { kind: "awaited" } } }) }, "admitted"],
  ["one that has ended has none", pod(), { others: times(110, { more: { isPlaceFree: true } }) }, "admitted"],
  [
    "a deleted one has, as long as it ends",
    pod(),
    { others: times(110, { more: { termination: ending } }) },
    outOf("pods", 1, 110, 110),
  ],
  [
    "one whose manifest is gone has none",
    pod(),
    { others: times(110, { isStatic: true, more: { termination: ending } }) },
    "admitted",
  ],
  [
    "a pod that asks for nothing runs on a node of which all is asked for",
    pod(),
    { others: [pod(cpu("4"))] },
    "admitted",
  ],
  ["what is left of the CPUs", pod(cpu("500m")), { others: [pod(cpu("3500m"))] }, "admitted"],
  ["a thousandth more is too much", pod(cpu("501m")), { others: [pod(cpu("3500m"))] }, outOf("cpu", 501, 3500, 4000)],
  ["less than a thousandth counts as one", pod(cpu("100u")), { others: [pod(cpu("4"))] }, outOf("cpu", 1, 4000, 4000)],
  ["memory, less what evictions keep free", pod(memory("8Gi")), {}, outOf("memory", 8n * 2n ** 30n, 0, MEMORY)],
  [
    "and less what is reserved",
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
    "of several the first is told",
    pod({ containers: [asking({ cpu: "5", memory: "9Gi" })] }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  ["places before all else", pod(cpu("5")), { others: times(110) }, outOf("pods", 1, 110, 110)],
  [
    "all containers together",
    pod({ containers: [asking({ cpu: "3" }), asking({ cpu: "2" })] }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  ["an init container alone", pod({ initContainers: [asking({ cpu: "5" })] }), {}, outOf("cpu", 5000, 0, 4000)],
  ["which runs before the others", pod({ ...cpu("3"), initContainers: [asking({ cpu: "3" })] }), {}, "admitted"],
  [
    "a sidecar runs beside them",
    pod({ ...cpu("3"), initContainers: [asking({ cpu: "2" }, { restartPolicy: "Always" })] }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  ["what the runtime class adds", pod({ ...cpu("4"), overhead: { cpu: "250m" } }), {}, outOf("cpu", 4250, 0, 4000)],
  [
    "what the pod asks for as a whole",
    pod({ ...cpu("1"), resources: { requests: { cpu: "5" } } }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "a resource that the API server tells of",
    pod({ containers: [asking({ "example.com/dongle": "3" })], tolerations }),
    { told },
    outOf("example.com/dongle", 3, 0, 2),
  ],
  [
    "one of which there is enough, but nobody to hand it out",
    pod({ ...dongles("2"), tolerations }),
    { told },
    "admitted",
  ],
  ["one that nobody has told of", pod(dongles("3")), {}, "admitted"],
  ["such a one that a static pod asks for", pod({ ...dongles("2"), isStatic: true }), { told }, devices],
  [
    "one that is gone from the node",
    pod({ ...dongles("1"), tolerations }),
    { told: without },
    outOf("example.com/dongle", 1, 0, 0),
  ],
  ["what cannot be read counts as nothing", pod(cpu("much")), {}, "admitted"],

  ["a host port that is taken", pod(port(80)), { others: [pod(port(80))] }, ports],
  ["another port", pod(port(81)), { others: [pod(port(80))] }, "admitted"],
  ["another protocol", pod(port(80, undefined, "UDP")), { others: [pod(port(80))] }, "admitted"],
  ["another address", pod(port(80, "192.0.2.1")), { others: [pod(port(80, "192.0.2.2"))] }, "admitted"],
  ["the same address", pod(port(80, "192.0.2.1")), { others: [pod(port(80, "192.0.2.1"))] }, ports],
  ["an address where all are taken", pod(port(80, "192.0.2.1")), { others: [pod(port(80, "0.0.0.0"))] }, ports],
  ["all addresses where one is taken", pod(port(80)), { others: [pod(port(80, "192.0.2.1"))] }, ports],
  ["a static pod's port is taken too", pod({ ...port(80), isStatic: true }), { others: [pod(port(80))] }, ports],

  ["a label of the node", pod({ nodeSelector: { disk: "ssd" }, tolerations }), { told }, "admitted"],
  ["of another value", pod({ nodeSelector: { disk: "tape" }, tolerations }), { told }, affinity],
  ["of none", pod({ nodeSelector: { zone: "" }, tolerations }), { told }, "admitted"],
  ["one that it has not", pod({ nodeSelector: { gone: "" }, tolerations }), { told }, affinity],
  ["one that every object has", pod({ nodeSelector: { constructor: "" }, tolerations }), { told }, affinity],
  [
    "what is lacking comes before labels",
    pod({ ...cpu("5"), nodeSelector: { disk: "tape" } }),
    {},
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "another node by name",
    pod({ nodeName: "node-b" }),
    {},
    "NodeName: Predicate NodeName failed: node(s) didn't match the requested node name",
  ],
  ["a taint that drives pods away", pod(), { told }, taints],
  [
    "one that is borne",
    pod({ tolerations: [{ key: "broken", operator: "Equal", value: "yes" }] }),
    { told },
    "admitted",
  ],
  ["with another value", pod({ tolerations: [{ key: "broken", value: "no" }] }), { told }, taints],
  [
    "with another effect",
    pod({ tolerations: [{ key: "broken", operator: "Exists", effect: "NoSchedule" }] }),
    { told },
    taints,
  ],
  [
    "for a while is borne too",
    pod({ tolerations: [{ key: "broken", operator: "Exists", effect: "NoExecute", tolerationSeconds: 3 }] }),
    { told },
    "admitted",
  ],
  ["no taint drives a static pod away", pod({ isStatic: true }), { told }, "admitted"],
  [
    "taints of other effects are the scheduler's affair",
    pod(),
    { told: { metadata: {}, spec: { taints: [{ key: "a", effect: "NoSchedule" }] } } },
    "admitted",
  ],

  ["another operating system", pod({ os: { name: "windows" } }), { others: times(110) }, os],
  [
    "its label",
    pod({ labels: { "kubernetes.io/os": "windows" } }),
    {},
    "PodOSSelectorNodeLabelDoesNotMatch: Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
  ],
  ["no groups of the image, by a runtime that can leave them out", pod(strict), {}, "admitted"],
  [
    "by one that cannot, before all other reasons",
    pod(strict),
    { canLeaveOutGroups: false, others: times(110) },
    groups,
  ],
  ["by one too old to say", pod({ isStatic: true, ...strict }), { canLeaveOutGroups: undefined }, groups],
  [
    "the image's groups are every runtime's",
    pod({ securityContext: { supplementalGroupsPolicy: "Merge" } }),
    { canLeaveOutGroups: undefined },
    "admitted",
  ],
  [
    "another operating system goes before that",
    pod({ os: { name: "windows" }, ...strict }),
    { canLeaveOutGroups: false },
    os,
  ],
  ["a profile that nothing here enforces", pod(confined("RuntimeDefault")), { machine: noAppArmor }, appArmor],
  [
    "one of the whole pod",
    pod({ securityContext: { appArmorProfile: { type: "RuntimeDefault" } } }),
    { machine: noAppArmor },
    appArmor,
  ],
  [
    "one of an init container alone",
    pod({ initContainers: confined("Localhost").containers }),
    { machine: noAppArmor },
    appArmor,
  ],
  ["a static pod with one", pod({ isStatic: true, ...confined("RuntimeDefault") }), { machine: noAppArmor }, appArmor],
  [
    "what has to fit is told first",
    pod({ ...confined("RuntimeDefault", { cpu: "5" }) }),
    { machine: noAppArmor },
    outOf("cpu", 5000, 0, 4000),
  ],
  ["none to be enforced", pod(confined("Unconfined")), { machine: noAppArmor }, "admitted"],
  ["one that is enforced", pod(confined("RuntimeDefault")), {}, "admitted"],

  ["a restart of all its containers", pod(restartsAll), {}, "admitted"],
  ["one where the gate for it is off", pod(restartsAll), { settings: { declaredFeatures: [] } }, restartAll],
  [
    "the same of a static pod",
    pod({ isStatic: true, ...restartsAll }),
    { settings: { declaredFeatures: [] } },
    restartAll,
  ],
  ["others need no such feature", pod(), { settings: { declaredFeatures: [] } }, "admitted"],

  ["ours", pod({ os: { name: "linux" }, labels: { "kubernetes.io/os": "linux" } }), {}, "admitted"],

  ["a static pod has room made for it", pod({ isStatic: true, ...cpu("1") }), { others: [pod(cpu("4"))] }, "admitted"],
  ["where others would be enough", pod({ isStatic: true }), { others: times(110) }, "admitted"],
  [
    "but not by other static pods",
    pod({ isStatic: true, ...cpu("1") }),
    { others: [pod({ isStatic: true, ...cpu("3500m") })] },
    unmet("(res: cpu, q: 500), "),
  ],
  [
    "nor more room than there is",
    pod({ isStatic: true, containers: [asking({ cpu: "5", memory: "9Gi" })] }),
    { others: [pod(cpu("4"))] },
    unmet(`(res: cpu, q: 1000), (res: memory, q: ${9n * 2n ** 30n - MEMORY}), `),
  ],
  [
    "a critical pod of the API neither",
    pod({ ...cpu("1"), priority: 2_000_000_000 }),
    { others: [pod(cpu("4"))] },
    "admitted",
  ],
  [
    "less than critical is not",
    pod({ ...cpu("1"), priority: 1_999_999_999 }),
    { others: [pod(cpu("4"))] },
    outOf("cpu", 1000, 4000, 4000),
  ],
  [
    "one that is more critical comes first",
    pod({ ...cpu("1"), priority: 2_000_001_000 }),
    { others: [pod({ ...cpu("4"), priority: 2_000_000_000 })] },
    "admitted",
  ],
  [
    "as critical is not more",
    pod({ ...cpu("1"), priority: 2_000_000_000 }),
    { others: [pod({ ...cpu("4"), priority: 2_000_000_000 })] },
    unmet("(res: cpu, q: 1000), "),
  ],
  [
    "room is not all that a critical pod needs",
    pod({ ...port(80), isStatic: true }),
    { others: [...times(109), pod(port(80))] },
    ports,
  ],

  ["a pod of the API waits for the node's object", pod(), { told: "unknown" }, "later"],
  ["a static pod does not", pod({ isStatic: true }), { told: "unknown" }, "admitted"],
  [
    "but for labels that may be there",
    pod({ isStatic: true, nodeSelector: { disk: "ssd" } }),
    { told: "unknown" },
    "later",
  ],
  [
    "labels of its own every node knows",
    pod({ isStatic: true, nodeSelector: { "kubernetes.io/hostname": "node-a" } }),
    { told: "unknown" },
    "admitted",
  ],
  [
    "without an API server they are all that there is",
    pod({ isStatic: true, nodeSelector: { disk: "ssd" } }),
    {},
    affinity,
  ],
  [
    "and those of --node-labels",
    pod({ isStatic: true, nodeSelector: { disk: "ssd" } }),
    { settings: { labels: { disk: "ssd" } } },
    "admitted",
  ],
  [
    "labels that may be old are asked for",
    pod({ nodeSelector: { disk: "tape" }, tolerations }),
    { told, isNodeFresh: false },
    "ask",
  ],
  [
    "but not where they do not matter",
    pod({ ...cpu("5"), tolerations }),
    { told, isNodeFresh: false },
    outOf("cpu", 5000, 0, 4000),
  ],
  [
    "nobody is rejected for the sake of a pod that may have ended",
    pod(),
    { others: times(110), areOthersSeen: false },
    "later",
  ],
  ["nor for its ports", pod(port(80)), { others: [pod(port(80))], areOthersSeen: false }, "later"],
  ["what fits beside all of them is taken at once", pod(), { others: times(109), areOthersSeen: false }, "admitted"],
];
for (const [name, desired, scene, says] of rows)
  test(`admission: ${name}`, () => expect(say(desired, scene)).toBe(says));

const terms = (...nodeSelectorTerms: readonly object[]): Given => ({
  tolerations,
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
});
const asks = (...matchExpressions: readonly (readonly [string, string, ...string[]])[]) => ({
  matchExpressions: matchExpressions.map(([key, operator, ...values]) => ({ key, operator, values })),
});
const fields = (operator: NodeSelectorRequirement["operator"], ...values: readonly string[]) => ({
  matchFields: [{ key: "metadata.name", operator, values }],
});

/** The node has `disk=ssd`, `cores=4` and an empty `zone`. */
const affinities: readonly [name: string, given: Given, isMet: boolean][] = [
  ["one of these values", terms(asks(["disk", "In", "tape", "ssd"])), true],
  ["none of these", terms(asks(["disk", "NotIn", "tape"])), true],
  ["none of these, and it is one", terms(asks(["disk", "NotIn", "ssd"])), false],
  ["none of these, without any", terms(asks(["gone", "NotIn", "x"])), true],
  ["there", terms(asks(["zone", "Exists"])), true],
  ["not there", terms(asks(["gone", "DoesNotExist"])), true],
  ["not there, and it is", terms(asks(["disk", "DoesNotExist"])), false],
  ["more than", terms(asks(["cores", "Gt", "3"])), true],
  ["more than as many", terms(asks(["cores", "Gt", "4"])), false],
  ["less than", terms(asks(["cores", "Lt", "10"])), true],
  ["less than, of a word", terms(asks(["disk", "Lt", "10"])), false],
  ["both of two", terms(asks(["disk", "In", "ssd"], ["cores", "Gt", "5"])), false],
  ["one of two terms", terms(asks(["disk", "In", "tape"]), asks(["cores", "Exists"])), true],
  ["an empty term", terms({}), false],
  ["no term", terms(), false],
  ["a term that cannot be read", terms(asks(["disk", "NotIn"])), false],
  ["an operator of a later release", terms(asks(["disk", "Like", "s*"])), false],
  ["this node by its name", terms(fields("In", "node-a")), true],
  ["another by its name", terms(fields("In", "node-b")), false],
  ["any but another", terms(fields("NotIn", "node-b")), true],
  ["the selector and the affinity", { ...terms(asks(["disk", "In", "ssd"])), nodeSelector: { disk: "tape" } }, false],
];
for (const [name, given, isMet] of affinities)
  test(`a pod wants a node with ${name}: ${isMet ? "this one" : "not this one"}`, () => {
    expect(say(pod(given), { told })).toBe(isMet ? "admitted" : affinity);
  });

test("what a pod has taken is given back as it was, whatever it has become since", () => {
  const places = createPlaces();
  const own = pod({ ...port(80), containers: [asking({ cpu: "3" }, { ports: [{ containerPort: 1, hostPort: 80 }] })] });
  places.note(own);
  places.note({ ...own, revision: 1, pod: { ...own.pod, spec: { containers: [asking({ cpu: "1" })] } } });
  expect([places.occupancy.pods(), places.occupancy.amount("cpu")]).toEqual([1, 1000n]);
  places.note({ ...own, isPlaceFree: true });
  places.giveBack(own.uid);
  expect([places.occupancy.pods(), places.occupancy.amount("cpu")]).toEqual([0, 0n]);
  expect(places.occupancy.has({ ip: "0.0.0.0", protocol: "TCP", port: 80 })).toBe(false);
});

const entries: readonly [name: string, desired: DesiredPod, status: Pod["status"], says: string][] = [
  ["a new pod waits for its answer", pod(), undefined, "awaited"],
  ["one that the scheduler has bound too", pod(), { phase: "Pending", conditions: [] }, "awaited"],
  ["one that a node agent has begun is taken", pod(), { phase: "Pending", startTime: "2026-01-01T00:00:00Z" }, "taken"],
  ["one that has ended needs no place", pod(), { phase: "Failed", startTime: "2026-01-01T00:00:00Z" }, "free"],
  [
    "what a manifest says of a status means nothing",
    pod({ isStatic: true }),
    { startTime: "2026-01-01T00:00:00Z" },
    "awaited",
  ],
];
for (const [name, desired, status, says] of entries)
  test(name, () => {
    const { admission, isPlaceFree } = entered({ ...desired, pod: { ...desired.pod, ...(status && { status }) } });
    expect(isPlaceFree ? "free" : (admission?.kind ?? "taken")).toBe(says);
  });

test("the oldest comes first, manifests before all, and equals as they came", () => {
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
  expect(all.toSorted(byAge).map((each) => each.pod.metadata.name)).toEqual(["static", "b", "a", "c"]);
});
