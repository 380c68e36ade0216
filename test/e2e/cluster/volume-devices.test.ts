import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, readlink, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { createMounts } from "../../../host/fs/mounts.ts";
import type { Container, Pod, PodSpec, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { script } from "../manifest.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import {
  areContainersReady,
  bindsClaimsSoon,
  type ClusterNode,
  parseDescribedEvents,
  startClusterNode,
} from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("block devices of claims") ?? skipWithoutLoopDevices();
const nodeName = "node-a";
const DISK_BYTES = 1 << 20;

function skipWithoutLoopDevices(): string | undefined {
  if (existsSync("/dev/loop-control")) return undefined;
  const reason = "this machine has no loop devices";
  console.warn(`skipped: block devices of claims, since ${reason}`);
  return reason;
}

/** A local volume, by default a block device, and its claim. */
function localVolume(name: string, path: string, hostname: string, volumeMode = "Block"): readonly Manifest[] {
  const common = { accessModes: ["ReadWriteOnce"], storageClassName: "", volumeMode };
  const key = "kubernetes.io/hostname";
  const nodeSelectorTerms = [{ matchExpressions: [{ key, operator: "In", values: [hostname] }] }];
  return [
    {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: `pv-${name}` },
      spec: {
        ...common,
        capacity: { storage: "1Mi" },
        persistentVolumeReclaimPolicy: "Retain",
        local: { path },
        nodeAffinity: { required: { nodeSelectorTerms } },
      },
    },
    {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name },
      spec: { ...common, volumeName: `pv-${name}`, resources: { requests: { storage: "1Mi" } } },
    },
  ];
}

describe.skipIf(skip !== undefined)("a pod with a block device", () => {
  let cluster: ClusterNode;
  let folder: string;
  let file: string;
  let device: string;
  let hostname: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-devices-"));
    file = join(folder, "disk.img");
    await writeFile(file, "of the node\n");
    await truncate(file, DISK_BYTES);
    ({ stdout: device } = await execa("losetup", ["--find", "--show", file]));
    cluster = await startClusterNode(undefined, undefined, bindsClaimsSoon);
    const label = "--output=jsonpath={.metadata.labels.kubernetes\\.io/hostname}";
    hostname = await cluster.kubectl("get", "node", nodeName, label);
    await symlink(device, join(folder, "by-id"));
    await cluster.apply(localVolume("data", join(folder, "by-id"), hostname));
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await cluster?.tearDown();
    if (device !== undefined) await execa("losetup", ["--detach", device]);
    await rm(folder, { recursive: true });
  });

  const waitForPod = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.waitForPods(what, name, (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };
  const hasEnded = ({ status }: Pod) => status?.phase === "Succeeded" || status?.phase === "Failed";
  const messageOf = ({ status }: Pod) => status?.containerStatuses?.[0]?.state?.terminated?.message;
  const asDevice: Partial<Container> = { volumeDevices: [{ name: "v", devicePath: "/dev/data" }] };
  /** Runs a program of the shell in a pod with the claim, on this node whatever its claim says. */
  const run = async (name: string, text: string, claim: Volume["persistentVolumeClaim"], container = asDevice) => {
    const spec: Partial<PodSpec> = { restartPolicy: "Never", nodeName, terminationGracePeriodSeconds: 1 };
    const volumes = [{ name: "v", ...(claim && { persistentVolumeClaim: claim }) }];
    await cluster.apply([barePod(name, { ...container, command: script(text) }, { ...spec, volumes })]);
  };
  const linkOf = ({ metadata: { uid = "" } }: Pod, volume = "pv-data") =>
    join(cluster.node.paths.agentRoot, "pods", uid, "volumeDevices/kubernetes.io~local-volume", volume);
  const globalFolder = (volume = "pv-data") =>
    join(cluster.node.paths.agentRoot, "plugins/kubernetes.io~local-volume/volumeDevices", volume);
  const mountPoints = () => createMounts().mountPointsBelow(join(cluster.node.paths.agentRoot, "plugins"));
  const remove = async (...names: readonly string[]) => {
    await cluster.kubectl("delete", "pod", ...names, "--timeout=180s");
    await cluster.waitUntilEmpty();
    expect(await readdir(join(cluster.node.paths.agentRoot, "pods"))).toEqual([]);
    expect([await mountPoints(), existsSync(globalFolder())]).toEqual([[], false]);
  };
  const waitForEvent = (name: string, reason: string, message: string) =>
    pollUntil(`the event: ${message}`, 20_000, async () =>
      parseDescribedEvents(await cluster.kubectl("describe", "pod", name)).some(
        (event) => event.reason === reason && event.message.endsWith(message),
      ),
    );

  test("reads it and writes to it; a pod that may only read it cannot write; the data outlives both", async () => {
    const read = "head -n 1 /dev/data";
    const write = "echo of the pod | dd of=/dev/data bs=64 conv=notrunc,sync";
    await run("writer", `(${read}; test -b /dev/data && ${write} 2>&1 >&2; ${read}) > /dev/termination-log; exit 0`, {
      claimName: "data",
    });
    const writer = await waitForPod("writer", "it has ended", hasEnded);
    expect(messageOf(writer)).toStartWith("of the node\n");
    expect(messageOf(writer)).toEndWith("of the pod\n");
    await run("reader", `(${read}; ${write} 2>&1 | grep -o "can't open.*") > /dev/termination-log; exit 0`, {
      claimName: "data",
      readOnly: true,
    });
    const reader = await waitForPod("reader", "it has ended", hasEnded);
    expect(messageOf(reader)).toBe("of the pod\ncan't open '/dev/data': Operation not permitted\n");
    await remove("writer", "reader");
    await execa("sync");
    expect((await readFile(file, "utf8")).split("\n")[0]).toBe("of the pod");
  });

  test("has it in the kubelet's directories, keeps it over kill -9 of the agent, and leaves nothing of it", async () => {
    await run("kept", "while true; do sleep 0.1; done", { claimName: "data" });
    const pod = await waitForPod("kept", "it is up", areContainersReady);
    const mountPoint = join(globalFolder(), pod.metadata.uid ?? "");
    expect([await readlink(linkOf(pod)), await mountPoints()]).toEqual([device, [mountPoint]]);
    const paths = { globalMapPath: dirname(mountPoint), volumeMapPath: dirname(linkOf(pod)) };
    for (const [what, path] of Object.entries(paths)) {
      const message = `MapVolume.MapPodDevice succeeded for volume "pv-data" ${what} "${path}"`;
      await waitForEvent("kept", "SuccessfulMountVolume", message);
    }
    await cluster.node.agent.kill9();
    await cluster.node.startAgent();
    expect([await readlink(linkOf(pod)), await mountPoints()]).toEqual([device, [mountPoint]]);
    expect((await cluster.pod("kept")).status?.containerStatuses?.[0]?.restartCount).toBe(0);
    await remove("kept");
  });

  test("does not start with a directory, a missing device, or a volume of the other mode", async () => {
    await cluster.apply([
      ...localVolume("folder", folder, hostname),
      ...localVolume("missing", join(folder, "none"), hostname),
      ...localVolume("files", folder, hostname, "Filesystem"),
    ]);
    for (const claimName of ["folder", "missing", "files"]) await run(claimName, "exit 0", { claimName });
    await run("mounted", "exit 0", { claimName: "data" }, { volumeMounts: [{ name: "v", mountPath: "/data" }] });
    const failed = (step: string, name: string, why: string) =>
      `MapVolume.${step} failed for volume "pv-${name}" : ${why}`;
    await waitForEvent(
      "folder",
      "FailedMapVolume",
      failed("MapBlockVolume", "folder", `${folder} is no block device: it is a directory`),
    );
    await waitForEvent(
      "missing",
      "FailedMapVolume",
      failed("EvalHostSymlinks", "missing", `lstat ${join(folder, "none")}: no such file or directory`),
    );
    await waitForEvent("files", "FailedMount", "volume v has volumeMode Filesystem, but is specified in volumeDevices");
    await waitForEvent("mounted", "FailedMount", "volume v has volumeMode Block, but is specified in volumeMounts");
    expect((await cluster.runningUids()).sandboxes).toEqual([]);
    await remove("folder", "missing", "files", "mounted");
  });
});
