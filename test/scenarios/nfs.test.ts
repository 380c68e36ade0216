// Volumes of NFS servers, also of those that stop answering. A look at a mount of such a server fails the scenario.
import { expect, test } from "bun:test";
import { persistentVolumeClaims, persistentVolumes } from "../../kube/resource.ts";
import type { PodSpec, Volume } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import { type AgentHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const nfs = { server: "nfs.example.com", path: "/exports/data" };
const specOf = (source: Omit<Volume, "name"> = { nfs }): PodSpec => ({
  volumes: [{ name: "v", ...source }],
  containers: [
    {
      name: "a",
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent",
      volumeMounts: [{ name: "v", mountPath: "/data" }],
    },
  ],
});
const setAnswering = ({ networkMounts }: AgentHarness, isAnswering: boolean) =>
  networkMounts.setAnswering(nfs.server, isAnswering);
const withoutUids = (text: string) => text.replace(/[0-9a-f-]{32,36}/, "UID");
const mountsOf = ({ runtime }: AgentHarness) =>
  [...runtime.containers.values()].flatMap(({ config }) =>
    config.mounts
      .filter(({ containerPath }) => containerPath === "/data")
      .map(({ hostPath, readonly }) => `${withoutUids(hostPath)}${readonly ? " read-only" : ""}`),
  );
/** Directories and mounts of pods. */
const leftovers = ({ disk, mounts }: AgentHarness): readonly string[] => [
  ...disk.paths().filter((path) => path.startsWith("/root/pods/")),
  ...mounts.mountPoints,
];
const folder = "/root/pods/UID/volumes/kubernetes.io~nfs";

scenario(
  "a volume of an NFS server is mounted for its pod, and unmounted when the pod is gone",
  {
    async run(harness) {
      await harness.setManifests(makePod("web", specOf({ nfs: { ...nfs, readOnly: true } })));
      await harness.advance("5s");
      harness.appendLog([...harness.networkMounts.calls, ...mountsOf(harness)]);
      await harness.setManifests();
      await harness.advance("60s");
      harness.appendLog(leftovers(harness));
    },
  },
  (log) => {
    expect(filterLines(log, /volume|nfs|root/)).toMatchInlineSnapshot(`
      "0s web: set up volume v
      5s nfs nfs.example.com:/exports/data ro
      5s /root/pods/UID/volumes/kubernetes.io~nfs/v read-only
      5s web: remove volume v: its manifest is gone"
    `);
  },
);

/** Creates a claim, and a volume of a server that is bound to it. */
async function bind(harness: AgentHarness): Promise<void> {
  const { user } = harness.kube;
  const { metadata } = await user.create(persistentVolumeClaims("default"), {
    metadata: { name: "data", namespace: "default" },
    spec: { volumeName: "pv-data" },
    status: { phase: "Bound" },
  });
  const claimRef = { namespace: "default", name: "data", uid: metadata.uid ?? "" };
  const spec = { nfs, claimRef, mountOptions: ["nfsvers=4.2", "hard"] };
  await user.create(persistentVolumes, { metadata: { name: "pv-data" }, spec });
  await settlePromises();
}

apiScenario(
  "a pod uses a volume of an NFS server by its claim, with the volume's mount options",
  async (harness) => {
    await bind(harness);
    await harness.apply("web", specOf({ persistentVolumeClaim: { claimName: "data", readOnly: true } }));
    await harness.advance("5s");
    expect(new Set(harness.networkMounts.calls)).toEqual(
      new Set(["nfs nfs.example.com:/exports/data hard nfsvers=4.2 ro"]),
    );
    expect(mountsOf(harness)).toEqual([`${folder}/pv-data read-only`]);
    await harness.deletePod("web");
    await harness.advance("60s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(leftovers(harness)).toEqual([]);
  },
);

apiScenario(
  "a server that refuses is asked again, and the event has the kubelet's words",
  async (harness) => {
    harness.networkMounts.refusals.set(nfs.server, "mount.nfs: access denied by server\n");
    await harness.apply("web", specOf());
    await harness.advance("5s");
    harness.networkMounts.refusals.clear();
    await harness.advance("60s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    const [event = ""] = await harness.events("web");
    expect(withoutUids(event)).toMatchInlineSnapshot(`
      "3x Warning FailedMount: MountVolume.SetUp failed for volume "v" : mount failed: exit status 32
      Mounting command: mount
      Mounting arguments: -t nfs nfs.example.com:/exports/data /root/pods/UID/volumes/kubernetes.io~nfs/v
      Output: mount.nfs: access denied by server
      "
    `);
  },
  { stride: 3 },
);

apiScenario(
  "a server that does not answer holds up its own pods alone, also where there are more of them than start at once",
  async (harness) => {
    setAnswering(harness, false);
    for (let pod = 0; pod < 4; pod++) await harness.apply(`waits-${pod}`, specOf());
    await harness.apply("web", {});
    await harness.advance("1s");
    const states = await harness.apiPods();
    expect(states.filter((line) => line.includes("Running"))).toEqual(["web Running, ready: a running"]);
    setAnswering(harness, true);
    await harness.advance("4m");
  },
  async (end, harness) => {
    expect(end.api.filter((line) => line.endsWith("Running, ready: a running"))).toHaveLength(5);
    expect(await harness.events("waits-0")).toContain(
      "1x Warning FailedMount: Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]: context deadline exceeded",
    );
  },
  { stride: 5, node: { startSlots: 2 } },
);

apiScenario(
  "a pod that is deleted while its server does not answer leaves at once",
  async (harness) => {
    setAnswering(harness, false);
    await harness.apply("web", specOf());
    await harness.advance("20s");
    await harness.deletePod("web");
    await harness.advance("3s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(leftovers(harness)).toEqual([]);
  },
);

apiScenario(
  "a mount that is made though its pod was deleted meanwhile is unmounted",
  async (harness) => {
    setAnswering(harness, false);
    harness.networkMounts.mountsWhenKilled.add(nfs.server);
    await harness.apply("web", specOf());
    await harness.advance("20s");
    await harness.deletePod("web");
    await harness.advance("3m");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(leftovers(harness)).toEqual([]);
  },
);

apiScenario(
  "a server that stops answering delays the end of its own pod, and the agent never looks at what is mounted",
  async (harness) => {
    await harness.apply("web", specOf());
    await harness.advance("5s");
    setAnswering(harness, false);
    await harness.exit("a", 1);
    await harness.advance("30s");
    await harness.deletePod("web");
    await harness.apply("other", {});
    await harness.advance("5s");
    expect((await harness.apiPods()).some((line) => line.startsWith("other Running"))).toBe(true);
    await harness.advance("4m");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["other Running, ready: a running"]);
    expect(harness.mounts.mountPoints).toEqual([]);
  },
);

apiScenario(
  "a subPath of a volume on a server is mounted, and unmounted before the volume",
  async (harness) => {
    const spec = specOf();
    const containers = spec.containers.map((each) => ({
      ...each,
      volumeMounts: [{ name: "v", mountPath: "/data", subPath: "part" }],
    }));
    await harness.apply("web", { ...spec, containers });
    await harness.advance("5s");
    expect(mountsOf(harness)).toEqual(["/root/pods/UID/volume-subpaths/v/a/0"]);
    setAnswering(harness, false);
    await harness.deletePod("web");
    await harness.advance("5m");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(leftovers(harness)).toEqual([]);
  },
  { stride: 3 },
);

test("the mount of a pod that was deleted while no agent ran is removed without a look at its server", async () => {
  const harness = await runInCluster(async (on) => {
    await on.apply("web", specOf());
    await on.advance("5s");
  });
  harness.kill();
  setAnswering(harness, false);
  await harness.deletePod("web", 0);
  await harness.start();
  await harness.advance("4m");
  expect(leftovers(harness)).toEqual([]);
});
