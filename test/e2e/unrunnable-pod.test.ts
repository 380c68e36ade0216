import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { buildTestImages, busyboxImage, importImages } from "../bed/images/images.ts";
import { copyImage } from "../bed/images/oci-layout.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf, script } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

/** A pod that this node cannot run, and what a user must see of it. */
interface Unrunnable {
  readonly title: string;
  readonly pod: Pod;
  readonly phase: string;
  /** The expected reasons in their order; others may appear in between. */
  readonly reasons: readonly string[];
  readonly expectedMessage: string;
  /** What Berth says beside the message. */
  readonly explanation?: string;
}

/** An address without a listener. */
const deadRegistry = "127.0.0.1:9";
const volume = { name: "data", mountPath: "/data" };
/** Images whose user is a name, and a number. */
const namedUserImage = "berth.test/of-sailor:1";
const numericUserImage = "berth.test/of-number:1";
const notRoot = { securityContext: { runAsNonRoot: true } };

const rows: readonly Unrunnable[] = [
  {
    title: "a pod that asks for a feature that this node does not have",
    pod: podOf("unsupported", {}, { runtimeClassName: "sandboxed" }),
    phase: "Failed",
    reasons: ["PodFeatureUnsupported"],
    expectedMessage: "runtimeClassName",
  },
  {
    title: "RestartAllContainers with its feature gate off",
    pod: podOf("all-again", {
      restartPolicy: "Never",
      restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [88] } }],
    }),
    phase: "Failed",
    reasons: ["PodFeatureUnsupported"],
    expectedMessage: "Pod requires node features that are not available: RestartAllContainersOnContainerExits",
  },
  {
    title: "a user namespace, which this runtime does not support",
    pod: podOf("own-users", {}, { hostUsers: false }),
    phase: "Pending",
    reasons: ["ContainerCreating"],
    expectedMessage:
      "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces",
  },
  {
    title: "supplementalGroupsPolicy Strict, which this runtime does not support",
    pod: podOf("strict", {}, { securityContext: { supplementalGroupsPolicy: "Strict" } }),
    phase: "Failed",
    reasons: ["SupplementalGroupsPolicyNotSupported"],
    expectedMessage: "SupplementalGroupsPolicy=Strict is not supported in this node",
  },
  {
    title: "an image of an unreachable registry",
    pod: podOf("unreachable", { image: `${deadRegistry}/no/image:1` }),
    phase: "Pending",
    reasons: ["ErrImagePull", "ImagePullBackOff"],
    expectedMessage: `${deadRegistry}/no/image:1`,
  },
  {
    title: "a missing image with imagePullPolicy Never",
    pod: podOf("never", { image: "berth.test/absent:1", imagePullPolicy: "Never" }),
    phase: "Pending",
    reasons: ["ErrImageNeverPull"],
    expectedMessage: 'Container image "berth.test/absent:1" is not present with pull policy of Never',
  },
  {
    title: "an invalid image name",
    pod: podOf("misnamed", { image: "berth.test/UPPER case:1" }),
    phase: "Pending",
    reasons: ["InvalidImageName"],
    expectedMessage: "invalid reference format",
  },
  {
    title: "a command that does not exist",
    pod: podOf("commandless", { command: ["/no/such/program"] }),
    phase: "Running",
    reasons: ["RunContainerError", "CrashLoopBackOff"],
    expectedMessage: "back-off 10s restarting failed container=main",
  },
  {
    title: "a hostPath of type Directory that is a file",
    pod: podOf(
      "pathless",
      { volumeMounts: [volume] },
      { volumes: [{ name: "data", hostPath: { path: "/etc/hostname", type: "Directory" } }] },
    ),
    phase: "Pending",
    reasons: ["ContainerCreating"],
    expectedMessage: "hostPath type check failed: /etc/hostname is not a directory",
  },
  {
    // A folder of this repository, where containerd was started: it makes one that does not exist.
    title: "a relative hostPath, which the kubelet passes on, too",
    pod: podOf("relative", { volumeMounts: [volume] }, { volumes: [{ name: "data", hostPath: { path: "test/e2e" } }] }),
    phase: "Running",
    reasons: ["RunContainerError", "CrashLoopBackOff"],
    expectedMessage: "/test/e2e: no such file or directory",
    explanation: 'the hostPath "test/e2e" of volume data is relative',
  },
  {
    title: "more CPUs than the node has",
    pod: podOf("huge", { resources: { requests: { cpu: "4k" } } }),
    phase: "Failed",
    reasons: ["UnexpectedAdmissionError"],
    expectedMessage: "no set of running pods found to reclaim resources: [(res: cpu, q: 39",
    explanation: "the pod requests 4000 CPUs, and the node has ",
  },
  {
    title: "an image that runs as root in a pod with runAsNonRoot",
    pod: podOf("rootless", notRoot),
    phase: "Pending",
    reasons: ["CreateContainerConfigError"],
    expectedMessage: "container has runAsNonRoot and image will run as root",
  },
  {
    title: "an image with a user name in a pod with runAsNonRoot: the name may mean root",
    pod: podOf("nameless", { image: namedUserImage, ...notRoot }),
    phase: "Pending",
    reasons: ["CreateContainerConfigError"],
    expectedMessage:
      "container has runAsNonRoot and image has non-numeric user (sailor), cannot verify user is non-root",
  },
];
let node: TestNode;
let endWatch: () => void;
/**
 * The reports of each pod that differ from the one before, in order: back-offs pass while tests wait for other pods.
 */
const reports = new Map<string, PodSummary[]>();
const reportsOf = (name: string) => reports.get(`${name}-berth`) ?? [];
const reportKey = ({ reason, message, restarts }: PodSummary) => JSON.stringify([reason, message, restarts]);

beforeAll(async () => {
  node = await startNode({ configuration: { featureGates: { RestartAllContainersOnContainerExits: false } } });
  const busybox = (await buildTestImages()).find(({ name }) => name === busyboxImage)!;
  await importImages(node.containerd, [
    copyImage(busybox, namedUserImage, "sailor"),
    copyImage(busybox, numericUserImage, "4242:50000"),
  ]);
  endWatch = await node.watch((pods) => {
    for (const pod of pods) {
      const before = reports.get(pod.name) ?? [];
      const last = before.at(-1);
      if (last === undefined || reportKey(last) !== reportKey(pod)) reports.set(pod.name, [...before, pod]);
    }
  });
  for (const { pod } of rows) await node.putManifest(pod);
  await node.putManifest(podOf("good"));
});

afterAll(async () => {
  endWatch();
  await node.tearDown();
});

describe("berth pods shows the kubelet's reason and message for", () => {
  test.each(rows.map((row) => [row.title, row] as const))("%s", async (_, row) => {
    const { pod, phase, reasons, expectedMessage, explanation = "" } = row;
    const name = pod.metadata.name!;
    await pollUntil(`${name} to show ${reasons.join(", then ")}`, 30_000, () =>
      isInOrder(
        reasons,
        reportsOf(name).map(({ reason }) => reason),
      ),
    );
    const report = await pollUntil(`${name} to say ${expectedMessage}`, 30_000, () =>
      reportsOf(name).find(({ message }) => message.includes(expectedMessage)),
    );
    expect([report.phase, report.ready]).toEqual([phase, "0/1"]);
    // The API gets the message alone.
    expect(report.explanation ?? "").toContain(explanation);
    expect(JSON.stringify(report.status)).not.toContain(explanation || "no explanation");
  });
});

test("pods that cannot run do not prevent another pod from running, and the agent keeps running", async () => {
  await node.waitUntilRunning("good");
  expect(node.agent.isRunning).toBe(true);
});

test("with runAsNonRoot an image runs if its user is a number, or if the pod sets runAsUser", async () => {
  const id = { command: script("id -u > /dev/termination-log") };
  const once = { restartPolicy: "Never" } as const;
  await node.putManifest(podOf("numbered", { image: numericUserImage, ...id, ...notRoot }, once));
  await node.putManifest(
    podOf(
      "overridden",
      { image: namedUserImage, ...id, ...notRoot },
      { ...once, securityContext: { runAsUser: 1234 } },
    ),
  );
  for (const [name, user] of [
    ["numbered", "4242\n"],
    ["overridden", "1234\n"],
  ] as const) {
    const { status } = await node.waitForPod(name, "it has ended", ({ phase }) => phase === "Succeeded");
    expect(status.containerStatuses?.[0]?.state?.terminated?.message).toBe(user);
  }
});

test("a missing command is reported in the container's last state, and restarts are counted", async () => {
  const pod = await pollUntil("a second try", 30_000, () =>
    reportsOf("commandless").find(({ restarts }) => restarts === 2),
  );
  expect(pod.status.containerStatuses?.[0]?.lastState?.terminated).toMatchObject({
    exitCode: 128,
    reason: "StartError",
  });
});

test("a pod starts when its missing hostPath appears", async () => {
  await node.removeFile("pathless.yaml");
  const path = `${node.folder}/appears`;
  const pod = podOf(
    "patient",
    { volumeMounts: [volume] },
    { volumes: [{ name: "data", hostPath: { path, type: "File" } }] },
  );
  await node.putManifest(pod);
  await node.waitForPod("patient", "it waits", ({ message }) => message.includes("it does not exist"));
  await Bun.write(path, "here");
  await node.waitUntilRunning("patient");
});

test("pods that cannot run leave nothing when their manifests are removed", async () => {
  for (const { pod } of rows) if (pod.metadata.name !== "pathless") await node.removeFile(`${pod.metadata.name}.yaml`);
  for (const name of ["good", "patient", "numbered", "overridden"]) await node.removeFile(`${name}.yaml`);
  await node.waitUntilEmpty();
});

function isInOrder(expected: readonly string[], seen: readonly string[]): boolean {
  let at = 0;
  for (const reason of seen) if (reason === expected[at]) at++;
  return at === expected.length;
}
