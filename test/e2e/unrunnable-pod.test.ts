import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { buildTestImages, busyboxImage, importImages } from "../bed/images/images.ts";
import { copyImage } from "../bed/images/oci-layout.ts";
import { until } from "../bed/poll-until.ts";
import { podOf, script } from "./manifest.ts";
import { type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

/** What a user is to see of a pod that this node cannot run. */
interface Unrunnable {
  readonly title: string;
  readonly pod: Pod;
  readonly phase: string;
  /** The reasons in the order in which they are shown; others may stand in between. */
  readonly reasons: readonly string[];
  readonly says: string;
}

/** Nobody listens there. */
const deadRegistry = "127.0.0.1:9";
const volume = { name: "data", mountPath: "/data" };
/** They run as a user whom they call by name, and as one whom they call by number. */
const ofSailor = "berth.test/of-sailor:1";
const ofNumber = "berth.test/of-number:1";
const notRoot = { securityContext: { runAsNonRoot: true } };

const rows: readonly Unrunnable[] = [
  {
    title: "a pod that asks for a feature that this node does not have",
    pod: podOf("unsupported", {}, { resources: { limits: { cpu: "1" } } }),
    phase: "Failed",
    reasons: ["PodFeatureUnsupported"],
    says: "pod-level resources",
  },
  {
    title: "a restart of all its containers, whose gate is off here",
    pod: podOf("all-again", {
      restartPolicy: "Never",
      restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [88] } }],
    }),
    phase: "Failed",
    reasons: ["PodFeatureUnsupported"],
    says: "Pod requires node features that are not available: RestartAllContainersOnContainerExits",
  },
  {
    title: "users of its own, which this runtime cannot give",
    pod: podOf("own-users", {}, { hostUsers: false }),
    phase: "Pending",
    reasons: ["ContainerCreating"],
    says: "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces",
  },
  {
    title: "no groups of the image, which this runtime cannot leave out",
    pod: podOf("strict", {}, { securityContext: { supplementalGroupsPolicy: "Strict" } }),
    phase: "Failed",
    reasons: ["SupplementalGroupsPolicyNotSupported"],
    says: "SupplementalGroupsPolicy=Strict is not supported in this node",
  },
  {
    title: "an image that nobody has",
    pod: podOf("unreachable", { image: `${deadRegistry}/no/image:1` }),
    phase: "Pending",
    reasons: ["ErrImagePull", "ImagePullBackOff"],
    says: `${deadRegistry}/no/image:1`,
  },
  {
    title: "an image that may not be pulled and is not here",
    pod: podOf("never", { image: "berth.test/absent:1", imagePullPolicy: "Never" }),
    phase: "Pending",
    reasons: ["ErrImageNeverPull"],
    says: 'Container image "berth.test/absent:1" is not present with pull policy of Never',
  },
  {
    title: "an image whose name cannot be one",
    pod: podOf("misnamed", { image: "berth.test/UPPER case:1" }),
    phase: "Pending",
    reasons: ["InvalidImageName"],
    says: "invalid reference format",
  },
  {
    title: "a command that does not exist",
    pod: podOf("commandless", { command: ["/no/such/program"] }),
    phase: "Running",
    reasons: ["RunContainerError", "CrashLoopBackOff"],
    says: "back-off 10s restarting failed container=main",
  },
  {
    title: "a hostPath that is no folder",
    pod: podOf(
      "pathless",
      { volumeMounts: [volume] },
      { volumes: [{ name: "data", hostPath: { path: "/etc/hostname", type: "Directory" } }] },
    ),
    phase: "Pending",
    reasons: ["ContainerCreating"],
    says: "hostPath type check failed: /etc/hostname is not a directory",
  },
  {
    title: "an image that runs as root where that is forbidden",
    pod: podOf("rootless", notRoot),
    phase: "Pending",
    reasons: ["CreateContainerConfigError"],
    says: "container has runAsNonRoot and image will run as root",
  },
  {
    title: "an image that calls its user by name where root is forbidden: that may be root too",
    pod: podOf("nameless", { image: ofSailor, ...notRoot }),
    phase: "Pending",
    reasons: ["CreateContainerConfigError"],
    says: "container has runAsNonRoot and image has non-numeric user (sailor), cannot verify user is non-root",
  },
];
let node: Node;
let endWatch: () => void;
/** What was shown of each pod, in its order, as far as it said something else than before: waits go by while tests wait for others. */
const shown = new Map<string, PodSummary[]>();
const shownOf = (name: string) => shown.get(`${name}-berth`) ?? [];
const sayingOf = ({ reason, message, restarts }: PodSummary) => JSON.stringify([reason, message, restarts]);

beforeAll(async () => {
  node = await startNode({ configuration: { featureGates: { RestartAllContainersOnContainerExits: false } } });
  const busybox = (await buildTestImages()).find(({ name }) => name === busyboxImage)!;
  await importImages(node.containerd, [
    copyImage(busybox, ofSailor, "sailor"),
    copyImage(busybox, ofNumber, "4242:50000"),
  ]);
  endWatch = await node.watch((pods) => {
    for (const pod of pods) {
      const before = shown.get(pod.name) ?? [];
      const last = before.at(-1);
      if (last === undefined || sayingOf(last) !== sayingOf(pod)) shown.set(pod.name, [...before, pod]);
    }
  });
  for (const { pod } of rows) await node.put(pod);
  await node.put(podOf("good"));
});

afterAll(async () => {
  endWatch();
  await node.end();
});

describe("is shown with the words of Kubernetes:", () => {
  test.each(rows.map((row) => [row.title, row] as const))("%s", async (_, { pod, phase, reasons, says }) => {
    const name = pod.metadata.name!;
    await until(`${name} to show ${reasons.join(", then ")}`, 30_000, () =>
      isInOrder(
        reasons,
        shownOf(name).map(({ reason }) => reason),
      ),
    );
    const told = await until(`${name} to say ${says}`, 30_000, () =>
      shownOf(name).find(({ message }) => message.includes(says)),
    );
    expect([told.phase, told.ready]).toEqual([phase, "0/1"]);
  });
});

test("none of them keeps another pod from running, and the agent lives", async () => {
  await node.running("good");
  expect(node.agent.isRunning).toBe(true);
});

test("where root is forbidden an image runs whose user is a number, and one whose pod says the number instead", async () => {
  const id = { command: script("id -u > /dev/termination-log") };
  const once = { restartPolicy: "Never" } as const;
  await node.put(podOf("numbered", { image: ofNumber, ...id, ...notRoot }, once));
  await node.put(
    podOf("told", { image: ofSailor, ...id, ...notRoot }, { ...once, securityContext: { runAsUser: 1234 } }),
  );
  for (const [name, user] of [
    ["numbered", "4242\n"],
    ["told", "1234\n"],
  ] as const) {
    const { status } = await node.pod(name, "it has ended", ({ phase }) => phase === "Succeeded");
    expect(status.containerStatuses?.[0]?.state?.terminated?.message).toBe(user);
  }
});

test("a command that does not exist is told by the container's last state, and restarts are counted", async () => {
  const pod = await until("a second try", 30_000, () => shownOf("commandless").find(({ restarts }) => restarts === 2));
  expect(pod.status.containerStatuses?.[0]?.lastState?.terminated).toMatchObject({
    exitCode: 128,
    reason: "StartError",
  });
});

test("a hostPath that appears later is mounted by itself", async () => {
  await node.removeFile("pathless.yaml");
  const path = `${node.folder}/appears`;
  const pod = podOf(
    "patient",
    { volumeMounts: [volume] },
    { volumes: [{ name: "data", hostPath: { path, type: "File" } }] },
  );
  await node.put(pod);
  await node.pod("patient", "it waits", ({ message }) => message.includes("it does not exist"));
  await Bun.write(path, "here");
  await node.running("patient");
});

test("all of them end when their manifests are gone", async () => {
  for (const { pod } of rows) if (pod.metadata.name !== "pathless") await node.removeFile(`${pod.metadata.name}.yaml`);
  for (const name of ["good", "patient", "numbered", "told"]) await node.removeFile(`${name}.yaml`);
  await node.empty();
});

function isInOrder(wanted: readonly string[], seen: readonly string[]): boolean {
  let at = 0;
  for (const reason of seen) if (reason === wanted[at]) at++;
  return at === wanted.length;
}
