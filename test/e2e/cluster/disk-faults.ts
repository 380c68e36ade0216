import { expect } from "bun:test";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Event, Lease, Node as NodeObject, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { type BreakableDisk, mountBreakableDisk } from "../breakable-disk.ts";
import { script } from "../manifest.ts";
import type { TestNode } from "../node.ts";
import { barePod } from "./api-objects.ts";
import type { ClusterNode } from "./node.ts";

/** A fault of the disk with the agent's root directory. */
export interface DiskFault {
  readonly name: string;
  /** What the event of a pod that cannot start contains. */
  readonly says: string;
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
    ...{ name: "full", says: "the disk is full", pressure: "True" },
    cause: (disk) => disk.fill(),
    repair: (disk) => disk.free(),
  },
  {
    ...{ name: "read-only", says: "is read-only", pressure: "False" },
    cause: (disk) => disk.makeReadOnly(),
    // Such a file system stays read-only. A new one has the same content, once no agent has files open.
    async repair(disk, node) {
      await node.agent.stop();
      await disk.replace();
      await node.startAgent(configuration);
    },
  },
];

const REPORT_MS = 10_000;

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
  const { kubectl } = cluster;
  const areReady = (...names: readonly string[]) =>
    kubectl("wait", "--for=condition=Ready", ...names.map((name) => `pod/${name}`), "--timeout=180s");
  const containerOf = async (name: string) => (await cluster.pod(name)).status?.containerStatuses?.[0];
  const endPod = await applyPodThatEnds(cluster);
  await cluster.apply([barePod("kept")]);
  await areReady("ends", "kept");
  const kept = await containerOf("kept");

  await fault.cause(disk);
  const brokenAt = Date.now();
  await endPod();
  await cluster.waitForPods("its end", "ends", ([pod]) => pod?.status?.phase === "Failed");
  expect((await containerOf("ends"))?.state?.terminated).toMatchObject({ exitCode: 7, reason: "Error" });
  await pollUntil("a renewal of the lease", REPORT_MS, async () => (await renewedAt(cluster)) > brokenAt);
  await pollUntil("an update of the Node object", REPORT_MS, async () => {
    const conditions = await conditionsOf(cluster);
    return (
      Object.values(conditions).every(({ at }) => at > brokenAt) && conditions["DiskPressure"]?.is === fault.pressure
    );
  });
  expect((await conditionsOf(cluster))["Ready"]?.is).toBe("True");
  await cluster.apply([barePod("late", {}, toleratesPressure)]);
  await pollUntil("the late pod's event", REPORT_MS, async () =>
    (await eventsOf(cluster, "late")).some(
      ({ reason, message = "" }) => reason === "FailedMount" && message.includes(fault.says),
    ),
  );
  expect((await cluster.pod("late")).status?.phase).toBe("Pending");
  expect(await containerOf("kept")).toEqual(kept);

  await fault.repair(disk, cluster.node);
  await cluster.apply([barePod("next")]);
  await areReady("late", "next");
  expect(await containerOf("kept")).toEqual(kept);
  expect((await containerOf("ends"))?.state?.terminated?.exitCode).toBe(7);
  await kubectl("delete", "pod", "ends", "kept", "late", "next", "--timeout=180s");
  await cluster.waitUntilEmpty();
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

async function renewedAt({ kubectl, node }: ClusterNode): Promise<number> {
  const argv = ["get", "lease", node.name, "--namespace=kube-node-lease", "--output=json"];
  return Date.parse((JSON.parse(await kubectl(...argv)) as Lease).spec?.renewTime ?? "");
}

/** Each condition of the node: its status, and when the agent has reported it. Such times have whole seconds. */
async function conditionsOf({ kubectl, node }: ClusterNode) {
  const { status } = JSON.parse(await kubectl("get", "node", node.name, "--output=json")) as NodeObject;
  const conditions = (status?.conditions ?? []).map(
    ({ type, status: is, lastHeartbeatTime }) => [type, { is, at: Date.parse(lastHeartbeatTime ?? "") }] as const,
  );
  return Object.fromEntries(conditions);
}

async function eventsOf({ kubectl }: ClusterNode, pod: string): Promise<readonly Event[]> {
  const argv = ["get", "events", `--field-selector=involvedObject.name=${pod}`, "--output=json"];
  return (JSON.parse(await kubectl(...argv)) as { readonly items: readonly Event[] }).items;
}
