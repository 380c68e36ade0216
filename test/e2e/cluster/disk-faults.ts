import { expect } from "bun:test";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type {
  ContainerStatus,
  Event,
  Lease,
  Node as NodeObject,
  PodSpec,
} from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { type BreakableDisk, mountBreakableDisk } from "../breakable-disk.ts";
import { script } from "../manifest.ts";
import type { TestNode } from "../node.ts";
import { barePod } from "./api-objects.ts";
import type { ClusterNode } from "./node.ts";

/** A fault of the disk with the agent's root directory. */
export interface DiskFault {
  readonly name: string;
  /** What the event FailedMount of a new pod contains. */
  readonly message: string;
  /** The node's condition DiskPressure during the fault. */
  readonly pressure: "True" | "False";
  cause(disk: BreakableDisk): Promise<void>;
  repair(disk: BreakableDisk, node: TestNode): Promise<void>;
}

/** The lease is renewed every two seconds, and the Node object updated as often. */
const configuration = {
  nodeLeaseDurationSeconds: 8,
  nodeStatusUpdateFrequency: "1s",
  nodeStatusReportFrequency: "2s",
  evictionPressureTransitionPeriod: "1s",
};

export const diskFaults: readonly DiskFault[] = [
  {
    ...{ name: "full", message: "the disk is full", pressure: "True" },
    cause: (disk) => disk.fill(),
    repair: (disk) => disk.free(),
  },
  {
    ...{ name: "read-only", message: "is read-only", pressure: "False" },
    cause: (disk) => disk.makeReadOnly(),
    // Such a file system stays read-only. A new one has the same content, once no agent has files open.
    async repair(disk, node) {
      await node.agent.stop();
      await disk.replace();
      await node.startAgent(configuration);
    },
  },
];

const TIMEOUT_MS = 60_000;

/**
 * Moves the agent's root directory to a disk that fails. Checks that the exit of a pod's container, the renewals of the lease and
 * the updates of the Node object reach the API meanwhile, that a new pod says why it does not start, and that it and
 * another one start once the disk works again. The agent runs on its own disk afterwards.
 */
export async function checkDiskFault(cluster: ClusterNode, fault: DiskFault): Promise<void> {
  const { node } = cluster;
  await node.agent.stop();
  const disk = await mountBreakableDisk(node.paths.agentRoot, join(node.folder, `disk-${fault.name}`));
  try {
    await node.startAgent(configuration);
    await checkOnDisk(cluster, fault, disk);
  } finally {
    await node.agent.stop();
    await disk.unmount();
  }
  await node.startAgent();
}

async function checkOnDisk(cluster: ClusterNode, fault: DiskFault, disk: BreakableDisk): Promise<void> {
  const endPod = await applyPodThatEnds(cluster);
  await cluster.apply([barePod("kept")]);
  await waitUntilReady(cluster, "ends", "kept");
  const kept = await readContainer(cluster, "kept");

  await fault.cause(disk);
  await checkReports(cluster, fault, endPod);
  expect(await readContainer(cluster, "kept")).toEqual(kept);

  await fault.repair(disk, cluster.node);
  await checkStarts(cluster);
  expect(await readContainer(cluster, "kept")).toEqual(kept);
  await cluster.kubectl("delete", "pod", "ends", "kept", "late", "next", "--timeout=180s");
  await cluster.waitUntilEmpty();
}

/** Checks what reaches the API during the fault. Leaves the pod `late` pending. */
async function checkReports(cluster: ClusterNode, fault: DiskFault, endPod: () => Promise<void>): Promise<void> {
  const brokenAt = Date.now();
  await endPod();
  await cluster.waitForPods("its end", "ends", ([pod]) => pod?.status?.phase === "Failed");
  const { terminated } = (await readContainer(cluster, "ends"))?.state ?? {};
  expect(terminated).toMatchObject({ exitCode: 7, reason: "Error" });
  await pollUntil("a renewal of the lease", TIMEOUT_MS, async () => (await readRenewTime(cluster)) > brokenAt);
  await pollUntil("an update of the Node object", TIMEOUT_MS, async () => {
    const conditions = await readConditions(cluster);
    const isUpdated = Object.values(conditions).every(({ heartbeatAt }) => heartbeatAt > brokenAt);
    return isUpdated && conditions["DiskPressure"]?.status === fault.pressure;
  });
  expect((await readConditions(cluster))["Ready"]?.status).toBe("True");
  await cluster.apply([barePod("late", {}, toleratesPressure)]);
  await pollUntil("the late pod's event", TIMEOUT_MS, async () =>
    (await readEvents(cluster, "late")).some(
      ({ reason, message = "" }) => reason === "FailedMount" && message.includes(fault.message),
    ),
  );
  expect((await cluster.pod("late")).status?.phase).toBe("Pending");
}

/** Checks what starts after the repair, and that the end of the pod `ends` stays reported. */
async function checkStarts(cluster: ClusterNode): Promise<void> {
  await cluster.apply([barePod("next")]);
  await waitUntilReady(cluster, "late", "next");
  expect((await readContainer(cluster, "ends"))?.state?.terminated?.exitCode).toBe(7);
}

async function waitUntilReady({ kubectl }: ClusterNode, ...names: readonly string[]): Promise<void> {
  await kubectl("wait", "--for=condition=Ready", ...names.map((name) => `pod/${name}`), "--timeout=180s");
}

async function readContainer(cluster: ClusterNode, pod: string): Promise<ContainerStatus | undefined> {
  return (await cluster.pod(pod)).status?.containerStatuses?.[0];
}

/** The scheduler gives the node no other pod while its disk is full. */
const toleratesPressure: Partial<PodSpec> = {
  tolerations: [{ key: "node.kubernetes.io/disk-pressure", operator: "Exists" }],
};

/** Creates the pod `ends`. Returns a function that ends its container with the exit code 7. */
async function applyPodThatEnds({ apply, node }: ClusterNode): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(node.folder, "notes-"));
  const command = script("until test -e /notes/end; do sleep 0.1; done; exit 7");
  const volumes = [{ name: "notes", hostPath: { path: folder } }];
  const volumeMounts = [{ name: "notes", mountPath: "/notes" }];
  await apply([barePod("ends", { command, volumeMounts }, { restartPolicy: "Never", volumes })]);
  return () => writeFile(join(folder, "end"), "");
}

async function readRenewTime({ kubectl, node }: ClusterNode): Promise<number> {
  const argv = ["get", "lease", node.name, "--namespace=kube-node-lease", "--output=json"];
  return Date.parse((JSON.parse(await kubectl(...argv)) as Lease).spec?.renewTime ?? "");
}

/** Each condition of the node: its status, and when the agent has reported it. Such times have whole seconds. */
async function readConditions({ kubectl, node }: ClusterNode) {
  const object = JSON.parse(await kubectl("get", "node", node.name, "--output=json")) as NodeObject;
  const conditions = (object.status?.conditions ?? []).map(
    ({ type, status, lastHeartbeatTime }) =>
      [type, { status, heartbeatAt: Date.parse(lastHeartbeatTime ?? "") }] as const,
  );
  return Object.fromEntries(conditions);
}

async function readEvents({ kubectl }: ClusterNode, pod: string): Promise<readonly Event[]> {
  const argv = ["get", "events", `--field-selector=involvedObject.name=${pod}`, "--output=json"];
  return (JSON.parse(await kubectl(...argv)) as { readonly items: readonly Event[] }).items;
}
