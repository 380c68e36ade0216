import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { execa } from "execa";
import { createMounts } from "../../../host/fs/mounts.ts";
import type { Container, Event, PodSpec, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { builtBinary } from "../../bed/agent.ts";
import { powerOff } from "../../bed/cleanup/clean-up.ts";
import { webImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { podOf, script } from "../manifest.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { recordEndpoints } from "./endpoint-recording.ts";
import { areContainersReady, bindsClaimsSoon, type ClusterNode, startClusterNode } from "./node.ts";
import { recordStatuses } from "./status-recording.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("restarts of the agent on a node of a cluster");

/** A probe that takes its time, and counts its runs in a volume that the test reads. */
const slowly = (seconds: number, note: string): Probe => ({
  exec: { command: ["sh", "-c", `sleep ${seconds}; echo asked >>/notes/${note}`] },
  periodSeconds: 1,
  timeoutSeconds: 30,
});
const notes: Partial<Container> = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const labels = { served: "yes" };
const service: Manifest = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "web" },
  spec: { selector: labels, ports: [{ port: 80 }] },
};
const served = (pod: ReturnType<typeof barePod>) => ({ ...pod, metadata: { ...pod.metadata, labels } });
const withNotes: Partial<PodSpec> = { volumes: [{ name: "notes", emptyDir: {} }] };

/**
 * The agent of this tree as a program that sees another boot id. The real one cannot be changed. Its mounts below a shared
 * directory are those of the machine.
 */
async function binaryAfterBoot(folder: string, bootId: string): Promise<string> {
  const [idFile, program] = [join(folder, "boot-id"), join(folder, "berth-after-boot")];
  await writeFile(idFile, `${bootId}\n`);
  const ownBootId = `mount --make-private /proc && mount --bind ${idFile} /proc/sys/kernel/random/boot_id`;
  const inNamespace = `unshare --mount --propagation unchanged sh -c '${ownBootId} && exec ${builtBinary} "$@"'`;
  const script = `#!/bin/sh\nexec ${inNamespace} sh "$@"\n`;
  await writeFile(program, script, { mode: 0o755 });
  return program;
}

const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/** A claim `data`, and a directory of the node as its volume. */
function boundVolume(path: string, hostname: string): readonly Manifest[] {
  const common = { accessModes: ["ReadWriteOnce"], storageClassName: "", volumeName: "data" };
  const onNode = { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: [hostname] }] };
  const { volumeName: _, ...ofVolume } = common;
  const volume = {
    ...ofVolume,
    capacity: { storage: "1Mi" },
    persistentVolumeReclaimPolicy: "Retain",
    local: { path },
    nodeAffinity: { required: { nodeSelectorTerms: [onNode] } },
  };
  const claim = { ...common, resources: { requests: { storage: "1Mi" } } };
  return [
    { apiVersion: "v1", kind: "PersistentVolume", metadata: { name: "data" }, spec: volume },
    { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "data" }, spec: claim },
  ];
}

describe.skipIf(skip !== undefined)("a restart of the agent", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode(undefined, undefined, bindsClaimsSoon);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  test("takes no pod out of its Services, although its probes need long to succeed again", async () => {
    const { node } = cluster;
    const thrice: Probe = { httpGet: { port: 8080 }, successThreshold: 3, periodSeconds: 5 };
    const startup = { startupProbe: slowly(2, "startup"), readinessProbe: slowly(1, "readiness") };
    await cluster.apply([
      service,
      served(barePod("slow", { ...notes, readinessProbe: slowly(3, "readiness") }, withNotes)),
      served(barePod("started-slowly", { ...notes, ...startup }, withNotes)),
      served(barePod("thrice", { image: webImage, command: [], readinessProbe: thrice })),
    ]);
    const fromManifest = podOf("static", { ...notes, readinessProbe: slowly(3, "readiness") }, withNotes);
    await node.putManifest({ ...fromManifest, metadata: { ...fromManifest.metadata, labels } });
    const names = ["slow", "started-slowly", "thrice", `static-${node.name}`];
    await cluster.kubectl("wait", "--for=create", ...names.map((name) => `pod/${name}`), "--timeout=180s");
    await cluster.kubectl("wait", "--for=condition=Ready", ...names.map((name) => `pod/${name}`), "--timeout=180s");
    const uids = new Map((await node.pods()).map(({ name, uid }) => [name, uid]));
    const countProbes = async (name: string, note: string) => {
      const path = `pods/${uids.get(name)}/volumes/kubernetes.io~empty-dir/notes/${note}`;
      return (await readFile(join(node.paths.agentRoot, path), "utf8")).split("\n").length - 1;
    };
    const countReadiness = () =>
      Promise.all(names.filter((name) => name !== "thrice").map((name) => countProbes(name, "readiness")));
    const statuses = await recordStatuses(cluster.plane);
    const endpoints = await recordEndpoints(cluster.plane, "web");
    const sorted = names.toSorted();
    await pollUntil("each pod to be an endpoint", 10_000, async () => isDeepStrictEqual(endpoints.ready(), sorted));
    await node.agent.kill9();
    const before = await countReadiness();
    await node.startAgent();
    // A command of the last agent may still end.
    await pollUntil("each pod to be probed twice", 30_000, async () => {
      const now = await countReadiness();
      return now.every((count, at) => count >= (before[at] ?? 0) + 2);
    });
    expect(endpoints.losses()).toEqual([]);
    expect(endpoints.ready()).toEqual(sorted);
    expect(statuses.regressions()).toEqual([]);
    expect(statuses.now().get("started-slowly")?.status?.containerStatuses?.[0]).toMatchObject({
      ...{ started: true, ready: true, restartCount: 0 },
    });
    expect(await countProbes("started-slowly", "startup")).toBe(1);
    await statuses.stop();
    await endpoints.stop();
    await cluster.kubectl("delete", "service", "web");
    await node.removeFile("static.yaml");
    await cluster.kubectl("delete", "pod", ...names.slice(0, 3), "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("after a reboot without an API server, its pods start again once, and the API server learns of it later", async () => {
    const { node, plane } = cluster;
    await cluster.apply([barePod("kept", {})]);
    await cluster.kubectl("wait", "--for=condition=Ready", "pod/kept", "--timeout=180s");
    const before = await cluster.pod("kept");
    const [was] = before.status?.containerStatuses ?? [];
    const allEvents = async () => {
      const { items } = JSON.parse(await cluster.kubectl("get", "events", "--output=json")) as {
        readonly items: readonly Event[];
      };
      return items;
    };
    const ofPod = (all: readonly Event[], name: string) =>
      all.filter(({ involvedObject, reason }) => involvedObject.name === "kept" && reason === name);
    // The agent sends a pod's events one after the other. One that is killed loses those that it has not sent.
    await pollUntil(
      "the event of the first start",
      20_000,
      async () => ofPod(await allEvents(), "Started").length === 1,
    );
    await plane.stopApiServer();
    await node.agent.kill9();
    await node.containerd.kill9();
    await powerOff(node.containerd.record);
    const bootId = randomUUID();
    await node.launchAgent({}, [], await binaryAfterBoot(node.folder, bootId));
    await node.containerd.restart();
    const again = await pollUntil("the pod to run again", 30_000, async () =>
      // The agent's socket refuses connections until the agent has started.
      (await node.pods().catch(() => [])).find(({ ready, restarts }) => ready === "1/1" && restarts === 1),
    );

    await plane.startApiServer();
    const shown = await pollUntil("the pod's new status", 30_000, async () => {
      const pod = await cluster.pod("kept");
      return areContainersReady(pod) && pod.status?.containerStatuses?.[0]?.restartCount === 1 && pod;
    });
    const terminated = {
      exitCode: 255,
      reason: "Unknown",
      containerID: was!.containerID!,
      startedAt: was!.state!.running!.startedAt!,
    };
    expect(shown.status?.containerStatuses?.[0]).toMatchObject({ lastState: { terminated } });
    expect(shown.status?.podIP).toBe(again.ip);
    const uids = [before.metadata.uid!];
    expect(await cluster.runningUids()).toEqual({ containers: uids, sandboxes: uids });
    expect(await cluster.kubectl("get", "node", node.name, "--output=jsonpath={.status.nodeInfo.bootID}")).toBe(bootId);
    // The agent sends one event of each object at a time, so the event of the node overtakes those of the pod's start.
    const events = await pollUntil("the events of the reboot and of both starts", 20_000, async () => {
      const items = await allEvents();
      return items.some(({ reason }) => reason === "Rebooted") && ofPod(items, "Started").length >= 2 && items;
    });
    // The API server writes warnings of its own, for example about cluster IPs that it repairs.
    // Each agent that starts on this machine warns of its cgroups. A pod of the test before may have had a failed probe.
    const warnings = events.filter(
      ({ type, source, reason, involvedObject: { kind, name } }) =>
        type === "Warning" &&
        source?.component === "kubelet" &&
        reason !== "CgroupV1" &&
        (kind !== "Pod" || name === "kept"),
    );
    expect(warnings.map(({ message }) => message)).toEqual([`Node ${node.name} has been rebooted, boot id: ${bootId}`]);
    expect(ofPod(events, "SandboxChanged").map(({ count }) => count)).toEqual([1]);
    expect(ofPod(events, "Started").map(({ count }) => count)).toEqual([1, 1]);
    await cluster.kubectl("delete", "pod", "kept", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("with --keep-referenced-objects, after a reboot without an API server a pod runs with its token, ConfigMap and claim", async () => {
    const { node, plane } = cluster;
    const flags = ["--keep-referenced-objects"];
    const disk = await mkdtemp(join(tmpdir(), "berth-disk-"));
    await node.agent.stop();
    await node.startAgent({}, flags);
    await cluster.kubectl("wait", "--for=create", "serviceaccount/default", "configmap/kube-root-ca.crt");
    await cluster.kubectl("create", "configmap", "site", "--from-literal=colour=blue");
    const hostname = "--output=jsonpath={.metadata.labels.kubernetes\\.io/hostname}";
    await cluster.apply(boundVolume(disk, await cluster.kubectl("get", "node", node.name, hostname)));
    const text = `echo "$(cat /site/colour) $([ -s ${tokenFile} ] && echo token)" >> /data/runs; while true; do sleep 0.1; done`;
    const volumeMounts = ["site", "data"].map((name) => ({ name, mountPath: `/${name}` }));
    const volumes: PodSpec["volumes"] = [
      { name: "site", configMap: { name: "site" } },
      { name: "data", persistentVolumeClaim: { claimName: "data" } },
    ];
    const spec = { volumes, automountServiceAccountToken: true };
    await cluster.apply([barePod("usual", { command: script(text), volumeMounts }, spec)]);
    await cluster.kubectl("wait", "--for=condition=Ready", "pod/usual", "--timeout=180s");
    const { metadata, spec: made } = await cluster.pod("usual");
    const volumesOfPod = join(node.paths.agentRoot, "pods", metadata.uid!, "volumes");
    const tokenVolume = made.volumes?.find(({ projected }) => projected !== undefined)?.name ?? "";
    const token = () => readFile(join(volumesOfPod, "kubernetes.io~projected", tokenVolume, "token"), "utf8");
    const tokenBefore = await token();
    const keptDir = join(node.paths.agentRoot, "berth/referenced-objects");
    const kept = async () => Promise.all((await readdir(keptDir)).map((name) => stat(join(keptDir, name))));
    // The ConfigMap, that with the cluster's CA, the token and the claim.
    expect((await kept()).map(({ mode, uid }) => [mode & 0o777, uid])).toEqual(Array(4).fill([0o600, 0]));
    const status = async () => (await execa(builtBinary, ["status", "--root-dir", node.paths.agentRoot])).stdout;

    await plane.stopApiServer();
    await node.agent.kill9();
    await node.containerd.kill9();
    await powerOff(node.containerd.record);
    // By the agent itself it would be shared in its own mount namespace alone.
    await createMounts().makeShared(node.paths.agentRoot);
    await node.launchAgent({}, flags, await binaryAfterBoot(node.folder, randomUUID()));
    await node.containerd.restart();
    await pollUntil("the pod to run again", 40_000, async () =>
      // The agent's socket refuses connections until the agent has started.
      (await node.pods().catch(() => [])).find(({ ready, restarts }) => ready === "1/1" && restarts === 1),
    );
    await pollUntil("its second note", 10_000, async () => {
      return (await readFile(join(disk, "runs"), "utf8")) === "blue token\nblue token\n";
    });
    expect(await token()).toBe(tokenBefore);
    expect(await status()).toContain("4 objects of pods come from the disk: the API server has not answered yet");

    await plane.startApiServer();
    await cluster.kubectl("patch", "configmap", "site", "--patch", JSON.stringify({ data: { colour: "red" } }));
    await pollUntil("what the API server has now", 30_000, async () => {
      const colour = await readFile(join(volumesOfPod, "kubernetes.io~configmap/site/colour"), "utf8");
      return colour === "red" && (await token()) !== tokenBefore && !(await status()).includes("come from the disk");
    });
    await cluster.kubectl("delete", "pod", "usual", "--timeout=180s");
    await cluster.waitUntilEmpty();
    await pollUntil("nothing to be kept", 10_000, async () => (await kept()).length === 0);
    expect(await readdir(disk)).toEqual(["runs"]);
    await rm(disk, { recursive: true });
  });
});
