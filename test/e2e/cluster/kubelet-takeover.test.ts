import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { execa } from "execa";
import { pods } from "../../../kube/resource.ts";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { hashAnnotation, mirrorAnnotation, podNameLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { busyboxImage, webImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { recordLifetimes } from "../container-lifetimes.ts";
import { podOf, untilStopped } from "../manifest.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { startTakeoverNode, type TakeoverNode } from "./takeover-fixture.ts";

setDefaultTimeout(600_000);
/** How long a new agent is watched: Berth relists the runtime 1 s and 10 s after it connects. */
const WATCHED_MS = 15_000;

const skip = skipWithoutPrograms("a change from the kubelet to Berth and back");

const sidecar = { name: "side", image: busyboxImage, command: untilStopped, restartPolicy: "Always" } as const;
const prepare = { name: "prepare", image: busyboxImage, command: ["true"] };
const scratch = { volumes: [{ name: "scratch", emptyDir: {} }] };
const mounted = { volumeMounts: [{ name: "scratch", mountPath: "/scratch" }] };
const hooks = { preStop: { exec: { command: ["true"] } }, postStart: { exec: { command: ["true"] } } };
const limited = { limits: { cpu: "1.5", memory: "64Mi" }, requests: { cpu: "10m" } };
const probed = {
  // A busy machine needs more than a second for a command.
  livenessProbe: { exec: { command: ["true"] }, periodSeconds: 1, timeoutSeconds: 30 },
  readinessProbe: { exec: { command: ["true"] }, periodSeconds: 1, timeoutSeconds: 30 },
};
const reader = [
  { name: "A", value: "b" },
  { name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
];

const staticPods: readonly Pod[] = [
  podOf("plain"),
  podOf("disk", mounted, scratch),
  podOf("sidecar", {}, { initContainers: [sidecar] }),
  podOf("prepared", { resources: limited }, { initContainers: [prepare] }),
  podOf("probed", probed),
  podOf("hooked", { lifecycle: hooks, env: reader }),
  podOf("host", {}, { hostNetwork: true, hostPID: true, priorityClassName: "system-node-critical" }),
  podOf("secured", {
    securityContext: { runAsUser: 1000, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
  }),
];
const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { a: "b" } };
const settings = { volumes: [{ name: "scratch", configMap: { name: "settings" } }] };
/** A volume of each kind that a kubelet marks. */
const marked: Partial<PodSpec> = {
  automountServiceAccountToken: true,
  volumes: [
    { name: "settings", configMap: { name: "settings" } },
    { name: "about", downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
    { name: "disk", emptyDir: {} },
    { name: "memory", emptyDir: { medium: "Memory" } },
  ],
};
/** A kubelet sets up only what a container mounts. */
const markedMounts = {
  volumeMounts: marked.volumes?.map(({ name }) => ({ name, mountPath: `/${name}` })) ?? [],
};
const apiPods: readonly Manifest[] = [
  barePod("api-plain"),
  barePod("api-web", {
    image: webImage,
    command: [],
    readinessProbe: { httpGet: { port: 8080 }, periodSeconds: 1, timeoutSeconds: 30 },
  }),
  barePod("api-settings", { ...mounted, envFrom: [{ configMapRef: { name: "settings" } }] }, settings),
  barePod("api-sidecar", { resources: limited }, { initContainers: [prepare, sidecar] }),
];
const staticNames = staticPods.map(({ metadata }) => `${metadata.name}-node-a`);
const names = [...staticNames, ...apiPods.map(({ metadata }) => metadata.name)];

describe.skipIf(skip !== undefined)("a change of agents", () => {
  let takeover: TakeoverNode;
  beforeAll(async () => {
    takeover = await startTakeoverNode();
  }, BUILD_TIMEOUT_MS);
  afterAll(() => takeover?.tearDown());

  /** What an agent that does not recognise the pods of the other one would replace. */
  const present = async (podNames: readonly string[]) => {
    const { kube, node } = takeover;
    const isOfPods = ({ labels }: { readonly labels: Readonly<Record<string, string>> }) =>
      podNames.includes(labels[podNameLabel] ?? "");
    const read = await Promise.all(podNames.map((name) => kube.get(pods("default"), name)));
    return {
      containers: (await node.containers())
        .filter(isOfPods)
        .map(({ id, state, metadata, labels }) => `${labels[podNameLabel]} ${metadata?.name} ${id} ${state}`)
        .toSorted(),
      sandboxes: (await node.sandboxes())
        .filter(isOfPods)
        .map(({ id, state, metadata }) => `${metadata?.name} ${id} ${state}`)
        .toSorted(),
      pods: read.map(({ metadata, status }) => ({
        name: metadata.name,
        uid: metadata.uid,
        hash: metadata.annotations?.[hashAnnotation],
        mirror: metadata.annotations?.[mirrorAnnotation],
        restarts: status?.containerStatuses?.map(({ restartCount }) => restartCount),
        podIP: status?.podIP,
      })),
    };
  };

  /** Returns the names of a static pod and one of the API, which the agent starts after it has seen the others. */
  const putNewPods = async (name: string) => {
    await takeover.node.putManifest(podOf(name));
    await takeover.apply([barePod(`api-${name}`)]);
    return [`${name}-node-a`, `api-${name}`];
  };

  /** The files and directories by which an agent knows what it has set up for a pod's volumes, with their modes. */
  const markedVolumes = async (name: string) => {
    const { metadata } = await takeover.kube.get(pods("default"), name);
    const folder = join(takeover.node.paths.agentRoot, "pods", metadata.uid ?? "", "plugins");
    const { stdout } = await execa("find", [folder, "-printf", "%P %m %y\n"]);
    return stdout
      .replaceAll(/kube-api-access-\w+/g, "kube-api-access")
      .split("\n")
      .toSorted();
  };

  test("marks the volumes that are set up as the kubelet does, and removes what the kubelet has set up", async () => {
    const { plane, node, apply, switchTo, waitForAgent } = takeover;
    await switchTo("kubelet");
    await apply([configMap, barePod("marked-one", markedMounts, marked)]);
    await waitForAgent("kubelet", ["marked-one"]);
    const ofKubelet = await markedVolumes("marked-one");
    expect(ofKubelet.filter((line) => line.includes("/ready "))).toHaveLength(5);
    await switchTo("berth");
    await apply([barePod("marked-two", markedMounts, marked)]);
    await waitForAgent("berth", ["marked-one", "marked-two"]);
    expect(await markedVolumes("marked-two")).toEqual(ofKubelet);
    await plane.kubectl(["delete", "pod", "marked-one", "--timeout=180s"]);
    await switchTo("kubelet");
    await waitForAgent("kubelet", ["marked-two"]);
    expect(await markedVolumes("marked-two")).toEqual(ofKubelet);
    await plane.kubectl(["delete", "pod", "marked-two", "--timeout=180s"]);
    const isEmpty = async () => (await readdir(join(node.paths.agentRoot, "pods"))).length === 0;
    await pollUntil("no directory of a pod", 30_000, isEmpty);
  });

  test("from the kubelet to Berth and back restarts no container and replaces no mirror pod", async () => {
    const { node, apply, switchTo, waitForAgent } = takeover;
    await switchTo("kubelet");
    await apply([configMap, ...apiPods]);
    for (const pod of staticPods) await node.putManifest(pod);
    await waitForAgent("kubelet", names);
    const first = await present(names);
    expect(first.pods.filter(({ mirror }) => mirror !== undefined).map(({ name = "" }) => name)).toEqual(staticNames);
    const lifetimes = await recordLifetimes(node.containerd);
    try {
      await switchTo("berth");
      const ofBerth = await putNewPods("of-berth");
      const later = [...names, ...ofBerth];
      await waitForAgent("berth", later);
      await pause(WATCHED_MS);
      expect(await present(names)).toEqual(first);

      const second = await present(later);
      await switchTo("kubelet");
      const ofKubelet = await putNewPods("of-kubelet");
      await waitForAgent("kubelet", [...later, ...ofKubelet]);
      await pause(WATCHED_MS);
      expect(await present(later)).toEqual(second);

      // Only containerd's events show an instance that is created and removed between two looks.
      const newPods = [...ofBerth, ...ofKubelet];
      const newUids = (await node.sandboxes())
        .filter(({ metadata }) => newPods.includes(metadata?.name ?? ""))
        .map(({ metadata }) => metadata?.uid);
      expect(newUids).toHaveLength(newPods.length);
      const created = (await lifetimes.all()).map(({ owner }) => owner);
      expect(created.toSorted()).toEqual(newUids.flatMap((uid) => [`${uid} main`, `${uid} sandbox`]).toSorted());
    } finally {
      lifetimes.stop();
    }
  });
});
