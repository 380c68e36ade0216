// A boot without the API server: with --keep-referenced-objects the default pod runs, without the flag it waits.
import { expect, test } from "bun:test";
import {
  clusterTrustBundles,
  configMaps,
  persistentVolumeClaims,
  persistentVolumes,
  secrets,
} from "../../kube/resource.ts";
import type { PersistentVolumeSpec, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { formatPemBlock } from "../../proto/pem.ts";
import { settlePromises } from "../fakes/clock.ts";
import { type AgentHarness, createHarness } from "./harness.ts";

const KEPT = "/root/berth/referenced-objects/";
const spec: Partial<PodSpec> = {
  containers: [
    {
      name: "a",
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent",
      env: [{ name: "USER", valueFrom: { secretKeyRef: { name: "login", key: "user" } } }],
      volumeMounts: [
        { name: "all", mountPath: "/all" },
        { name: "data", mountPath: "/data" },
      ],
    },
  ],
  volumes: [
    { name: "data", persistentVolumeClaim: { claimName: "data" } },
    {
      name: "all",
      projected: {
        sources: [
          { serviceAccountToken: { path: "token" } },
          { configMap: { name: "site" } },
          { clusterTrustBundle: { name: "ca", path: "ca.crt" } },
        ],
      },
    },
  ],
};
/** A local volume has a node affinity in any cluster. */
const volume: PersistentVolumeSpec = {
  local: { path: "/mnt/disk" },
  nodeAffinity: {
    required: { nodeSelectorTerms: [{ matchExpressions: [{ key: "disk", operator: "In", values: ["here"] }] }] },
  },
};
const nodeWith = (disk: string) => ({ metadata: { name: "node", labels: { disk } }, spec: {} });

async function bindClaim({ kube: { user }, disk }: AgentHarness): Promise<void> {
  await disk.at("/").makeFolder("mnt/disk", 0o755);
  const { metadata } = await user.create(persistentVolumeClaims("default"), {
    metadata: { name: "data", namespace: "default" },
    spec: { volumeName: "pv" },
    status: { phase: "Bound" },
  });
  const claimRef = { namespace: "default", name: "data", uid: metadata.uid ?? "" };
  await user.create(persistentVolumes, { metadata: { name: "pv" }, spec: { ...volume, claimRef } });
}

const anchor = formatPemBlock("CERTIFICATE", new TextEncoder().encode("one"));
const site = (colour: string) => ({ metadata: { name: "site", namespace: "default" }, data: { colour } });

/** A pod has run, the power is cut, and the next agent starts without the API server. */
async function bootOffline(keepsReferencedObjects: boolean, disk = "here"): Promise<AgentHarness> {
  const harness = await createHarness({ isInCluster: true, keepsReferencedObjects });
  harness.nodeObject = nodeWith(disk);
  await bindClaim(harness);
  const login = { metadata: { name: "login", namespace: "default" }, data: { user: "YWRtaW4=" } };
  await harness.kube.user.create(secrets("default"), login);
  await harness.kube.user.create(configMaps("default"), site("blue"));
  await harness.kube.user.create(clusterTrustBundles("v1beta1"), {
    metadata: { name: "ca" },
    spec: { trustBundle: anchor },
  });
  await harness.start();
  await harness.apply("web", spec);
  await harness.advance("5s");
  await harness.stop();
  harness.nodeObject = "unknown";
  harness.kube.goDown();
  harness.mounts.unmountAll();
  if (disk === "here") await harness.exit("a", 255);
  await harness.start();
  await harness.advance("20s");
  return harness;
}

const shown = async ({ disk }: AgentHarness, file: string): Promise<string | undefined> => {
  const path = disk.paths().find((each) => each.endsWith(`/kubernetes.io~projected/all/${file}`));
  return path === undefined ? undefined : await disk.at("/").read(path, 10_000);
};
const instances = ({ runtime }: AgentHarness) =>
  [...runtime.containers.values()].map(
    ({ config, state }) => `#${config.metadata?.attempt} ${state === 1 ? "running" : "exited"}`,
  );
const keptCount = (harness: AgentHarness) => harness.agent.clusterSync?.objects.keptReferences();

test("with --keep-referenced-objects the default pod runs after a boot without the API server, and gets new objects when it returns", async () => {
  const harness = await bootOffline(true);
  expect(instances(harness)).toEqual(["#0 exited", "#1 running"]);
  const oldToken = await shown(harness, "token");
  expect([await shown(harness, "colour"), oldToken === ""]).toEqual(["blue", false]);
  expect(await shown(harness, "ca.crt")).toBe(anchor);
  expect(keptCount(harness)).toBe(5);
  expect(harness.mounts.mountPoints.filter((path) => path.endsWith("/kubernetes.io~local-volume/pv"))).toHaveLength(1);
  await harness.kube.user.replace(configMaps("default"), site("red"));
  harness.nodeObject = nodeWith("here");
  harness.kube.comeBack();
  await harness.advance("90s");
  await settlePromises();
  expect(await shown(harness, "colour")).toBe("red");
  expect(await shown(harness, "token")).not.toBe(oldToken);
  expect([keptCount(harness), instances(harness)]).toEqual([0, ["#0 exited", "#1 running"]]);
  const kept = harness.disk.paths().filter((path) => path.startsWith(KEPT));
  expect(kept.map((path) => harness.disk.nodes.get(path)?.mode)).toEqual(Array(5).fill(0o600));
  await harness.deletePod("web");
  await harness.advance("60s");
  expect(harness.disk.paths().filter((path) => path.startsWith(KEPT))).toEqual([]);
});

test("without the flag the pod waits, and nothing of a Secret is on the disk", async () => {
  const harness = await bootOffline(false);
  expect(instances(harness)).toEqual(["#0 exited"]);
  expect(harness.disk.paths().filter((path) => path.startsWith(KEPT))).toEqual([]);
  harness.nodeObject = nodeWith("here");
  harness.kube.comeBack();
  await harness.advance("90s");
  expect(instances(harness)).toEqual(["#0 exited", "#1 running"]);
});

test("a kept claim mounts no volume that belongs to another node", async () => {
  const harness = await bootOffline(true, "elsewhere");
  expect(instances(harness)).toEqual([]);
  expect(harness.mounts.mountPoints.filter((path) => path.includes("kubernetes.io~local-volume"))).toEqual([]);
  harness.nodeObject = nodeWith("here");
  harness.kube.comeBack();
  await harness.advance("90s");
  expect(instances(harness)).toEqual(["#0 running"]);
});

test("an agent without the flag removes what another one has kept", async () => {
  const harness = await createHarness({ isInCluster: true, keepsReferencedObjects: false });
  await harness.disk.at("/root").makeFolder("berth/referenced-objects", 0o700);
  await harness.disk.at("/root").write("berth/referenced-objects/x.json", "{}", 0o600);
  await harness.start();
  await harness.advance("1s");
  expect(harness.disk.paths().filter((path) => path.startsWith(KEPT))).toEqual([]);
});
