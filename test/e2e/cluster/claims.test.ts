import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMounts } from "../../../host/fs/mounts.ts";
import type { PersistentVolumeSpec, Pod, PodSpec, Volume } from "../../../proto/kubernetes/gen/types.ts";
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

const skip = skipWithoutPrograms("PersistentVolumeClaims");
const nodeName = "node-a";
const forever = "while true; do sleep 0.1; done";
const hasEnded = ({ status }: Pod) => status?.phase === "Succeeded" || status?.phase === "Failed";
const resources = { requests: { storage: "1Mi" } };
const accessModes = ["ReadWriteOnce"] as const;

const claim = (name: string, volumeName?: string): Manifest => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name },
  spec: { accessModes, resources, storageClassName: "", ...(volumeName !== undefined && { volumeName }) },
});
const volume = (name: string, source: PersistentVolumeSpec): Manifest => ({
  apiVersion: "v1",
  kind: "PersistentVolume",
  metadata: { name },
  spec: {
    accessModes,
    capacity: { storage: "1Mi" },
    persistentVolumeReclaimPolicy: "Retain",
    storageClassName: "",
    ...source,
  },
});
/** A local volume has to name its nodes. */
const local = (path: string, node: string): PersistentVolumeSpec => ({
  local: { path },
  nodeAffinity: {
    required: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: [node] }] }],
    },
  },
});

describe.skipIf(skip !== undefined)("a pod with a claim", () => {
  let cluster: ClusterNode;
  let disks: string;
  beforeAll(async () => {
    disks = await mkdtemp(join(tmpdir(), "berth-disks-"));
    cluster = await startClusterNode(undefined, undefined, bindsClaimsSoon);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await cluster?.tearDown();
    await rm(disks, { recursive: true });
  });

  const waitForPod = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.waitForPods(what, name, (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };
  const makeDisk = async (name: string) => {
    const path = join(disks, name);
    await mkdir(path);
    return path;
  };
  const hostname = () =>
    cluster.kubectl("get", "node", nodeName, "--output=jsonpath={.metadata.labels.kubernetes\\.io/hostname}");
  /** Runs a program of the shell in a pod with the volume at /data, on this node whatever its claim says. */
  const run = async (name: string, text: string, source: Omit<Volume, "name">, spec: Partial<PodSpec> = {}) => {
    const container = { volumeMounts: [{ name: "v", mountPath: "/data" }], command: script(text) };
    const onNode = { volumes: [{ name: "v", ...source }], restartPolicy: "Never" as const, ...spec };
    await cluster.apply([barePod(name, container, onNode)]);
  };
  const messageOf = ({ status }: Pod) => status?.containerStatuses?.[0]?.state?.terminated?.message;
  const waitForEvent = (name: string, message: string, reason = "FailedMount") =>
    pollUntil(`the event: ${message}`, 20_000, async () =>
      parseDescribedEvents(await cluster.kubectl("describe", "pod", name)).some(
        (event) => event.reason === reason && event.message.endsWith(message),
      ),
    );
  const remove = async (...names: readonly string[]) => {
    await cluster.kubectl("delete", "pod", ...names, "--timeout=180s");
    await cluster.waitUntilEmpty();
    const { agentRoot } = cluster.node.paths;
    expect(await createMounts().mountPointsBelow(join(agentRoot, "pods"))).toEqual([]);
    expect(await readdir(join(agentRoot, "pods"))).toEqual([]);
  };

  test("writes to a local volume that its fsGroup owns, and the next pod reads it; the data outlives both", async () => {
    const path = await makeDisk("local");
    await cluster.apply([volume("pv-local", local(path, await hostname())), claim("local")]);
    const source = { persistentVolumeClaim: { claimName: "local" } };
    const group = { securityContext: { fsGroup: 2000 } };
    await run("writer", "echo precious > /data/file; exit 0", source, group);
    await waitForPod("writer", "it has ended", ({ status }) => status?.phase === "Succeeded");
    expect([await readFile(join(path, "file"), "utf8"), (await stat(path)).gid]).toEqual(["precious\n", 2000]);
    const readOnly = { persistentVolumeClaim: { claimName: "local", readOnly: true } };
    await run("reader", "(cat /data/file; touch /data/x 2>&1) > /dev/termination-log; exit 0", readOnly);
    const reader = await waitForPod("reader", "it has ended", hasEnded);
    expect(messageOf(reader)).toBe("precious\ntouch: /data/x: Read-only file system\n");
    await remove("writer", "reader");
    expect(await readFile(join(path, "file"), "utf8")).toBe("precious\n");
  });

  test("has the group that its volume asks for, and an event if pods of another group use the volume", async () => {
    const pv = volume("pv-group", local(await makeDisk("group"), await hostname()));
    const annotations = { "pv.beta.kubernetes.io/gid": "1234" };
    await cluster.apply([
      { ...pv, metadata: { name: "pv-group", annotations } } as Manifest,
      claim("group", "pv-group"),
    ]);
    const source = { persistentVolumeClaim: { claimName: "group" } };
    const withGroup = (fsGroup: number) => ({ securityContext: { fsGroup }, terminationGracePeriodSeconds: 1 });
    await run("first", forever, source, withGroup(2000));
    await waitForPod("first", "it is up", areContainersReady);
    await run("second", "id -G > /dev/termination-log; exit 0", source, withGroup(3000));
    const second = await waitForPod("second", "it has ended", hasEnded);
    expect((messageOf(second) ?? "").trim().split(" ")).toEqual(expect.arrayContaining(["1234", "3000"]));
    const shared =
      "The requested fsGroup is 3000, but the volume pv-group has GID 2000. The volume may not be shareable.";
    await waitForEvent("second", shared, "AlreadyMountedVolume");
    await remove("first", "second");
  });

  test("has its claim read with single gets, which is all that a node may do", async () => {
    const mayNode = (verb: string) => {
      const resourceAttributes = { verb, resource: "persistentvolumeclaims", namespace: "default", name: "used" };
      const spec = { user: `system:node:${nodeName}`, groups: ["system:nodes"], resourceAttributes };
      const review = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec };
      const args = ["create", "--filename=-", "--output=jsonpath={.status.allowed}"];
      return cluster.plane.kubectl(args, { input: JSON.stringify(review) });
    };
    const path = await makeDisk("used");
    await cluster.apply([claim("used", "pv-used"), volume("pv-used", local(path, await hostname()))]);
    await run("used", forever, { persistentVolumeClaim: { claimName: "used" } }, { terminationGracePeriodSeconds: 1 });
    await waitForPod("used", "it is up", areContainersReady);
    const answers = await Promise.all(["get", "list", "watch"].map(mayNode));
    expect(answers).toEqual(["true", "false", "false"]);
    await remove("used");
  });

  test("uses a hostPath volume by its claim", async () => {
    const path = await makeDisk("host");
    await writeFile(join(path, "file"), "of the node");
    await cluster.apply([volume("pv-host", { hostPath: { path, type: "Directory" } }), claim("host", "pv-host")]);
    await run("host", "cat /data/file > /dev/termination-log; exit 0", {
      persistentVolumeClaim: { claimName: "host" },
    });
    const pod = await waitForPod("host", "it has ended", hasEnded);
    expect(messageOf(pod)).toBe("of the node");
    await remove("host");
    expect(await readdir(path)).toEqual(["file"]);
  });

  test("waits for a claim that is missing and then not bound, and starts when it is bound", async () => {
    const source = { persistentVolumeClaim: { claimName: "late" } };
    await run("late", forever, source, { nodeName: nodeName });
    await waitForEvent(
      "late",
      'error processing PVC default/late: failed to fetch PVC from API server: persistentvolumeclaims "late" not found',
    );
    await cluster.apply([claim("late", "pv-late")]);
    await waitForEvent("late", "error processing PVC default/late: PVC is not bound");
    expect((await cluster.runningUids()).sandboxes).toEqual([]);
    await cluster.apply([volume("pv-late", local(await makeDisk("late"), await hostname()))]);
    await waitForPod("late", "it is up", areContainersReady);
    await remove("late");
  });

  test("does not start with a volume of another node, or of a driver that is missing", async () => {
    const csi = { csi: { driver: "d.example.com", volumeHandle: "1" } };
    await cluster.apply([
      volume("pv-elsewhere", local(await makeDisk("elsewhere"), "another-node")),
      claim("elsewhere", "pv-elsewhere"),
      volume("pv-driver", csi),
      claim("driver", "pv-driver"),
    ]);
    for (const name of ["elsewhere", "driver"])
      await run(name, forever, { persistentVolumeClaim: { claimName: name } }, { nodeName });
    await waitForEvent(
      "elsewhere",
      'MountVolume.NodeAffinity check failed for volume "pv-elsewhere" : no matching NodeSelectorTerms',
    );
    await waitForEvent("driver", "driver name d.example.com not found in the list of registered CSI drivers");
    expect((await cluster.runningUids()).sandboxes).toEqual([]);
    await remove("elsewhere", "driver");
  });

  test("gets a claim of its own for an ephemeral volume, and keeps its volume over kill -9 of the agent", async () => {
    const path = await makeDisk("own");
    await cluster.apply([volume("pv-own", local(path, await hostname()))]);
    const spec = { accessModes, resources, storageClassName: "", volumeName: "pv-own" };
    const options = { nodeName: nodeName, terminationGracePeriodSeconds: 1 };
    await run("own", forever, { ephemeral: { volumeClaimTemplate: { spec } } }, options);
    const pod = await waitForPod("own", "it is up", areContainersReady);
    const mountPoint = join("pods", pod.metadata.uid ?? "", "volumes/kubernetes.io~local-volume/pv-own");
    const { agentRoot } = cluster.node.paths;
    expect(await createMounts().mountPointsBelow(join(agentRoot, "pods"))).toEqual([join(agentRoot, mountPoint)]);
    await cluster.node.agent.kill9();
    await writeFile(join(path, "kept"), "precious");
    await cluster.node.launchAgent();
    await remove("own");
    expect(await readFile(join(path, "kept"), "utf8")).toBe("precious");
  });
});
