// subPath and subPathExpr: paths in volumes, mounted on the node before the container that uses them.
import { expect } from "bun:test";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { apiScenario } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";
import { makePod } from "./harness.ts";
import { scenario } from "./scenario.ts";

const image = { image: "busybox:1", imagePullPolicy: "IfNotPresent" as const };
const mounting: Partial<PodSpec> = {
  containers: [
    {
      name: "a",
      ...image,
      env: [{ name: "NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }],
      volumeMounts: [
        { name: "data", mountPath: "/whole" },
        { name: "data", mountPath: "/part", subPath: "part" },
        { name: "host", mountPath: "/own", subPathExpr: "of/$(NAME)" },
      ],
    },
  ],
  volumes: [
    { name: "data", emptyDir: {} },
    { name: "host", hostPath: { path: "/srv/data" } },
  ],
};

/** What each container instance mounts from the node: `#0 /part …/volume-subpaths/data/a/1`. */
function mountedPaths({ runtime }: AgentHarness): readonly string[] {
  return [...runtime.containers.values()].flatMap(({ config }) =>
    config.mounts
      .filter(({ hostPath }) => hostPath.includes("/volume-subpaths/"))
      .map(({ containerPath, hostPath }) => `${containerPath} ${hostPath.replace(/^.*\/volume-subpaths/, "…")}`),
  );
}
const mountPoints = ({ mounts }: AgentHarness) =>
  mounts.mountPoints.map((each) => each.replace(/^.*\/volume-subpaths/, "…"));
const dataFolder = ({ disk }: AgentHarness) =>
  disk.paths().find((path) => path.endsWith("kubernetes.io~empty-dir/data"));

scenario(
  "subPaths are mounted behind their volumes, and unmounted before them when the pod is removed",
  {
    async run(harness) {
      await harness.disk.at("/").makeFolder("/srv/data", 0o750);
      await harness.setManifests(makePod("web", mounting));
      await harness.advance("1s");
      await harness.setManifests();
      await harness.advance("1m");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: create the pod's directories
      0s web: set up volume host
      0s web: run sandbox (attempt 0): the pod has none
      0s web: set up volume data
      0s web: create the directory of the pod's subPaths
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      1s report web Running, ready, terminating: a running
      1s web: stop container a within 30s: its manifest is gone
      1s report web Running, terminating: a terminated Error 143
      1s web: stop sandbox: its manifest is gone
      1s web: remove sandbox: its manifest is gone
      1s web: remove the pod's logs: its manifest is gone
      1s web: unmount the pod's subPaths: its manifest is gone
      1s web: remove volume data: its manifest is gone
      1s web: remove the pod's files: its manifest is gone
      1s report web Running, finished: a terminated Error 143"
    `);
  },
);

apiScenario(
  "a container sees its subPaths, missing folders are made, and nothing of a deleted pod is left but the hostPath's",
  async (harness) => {
    await harness.disk.at("/").makeFolder("/srv/data", 0o750);
    await harness.apply("web", mounting);
    await harness.advance("5s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(mountedPaths(harness)).toEqual(["/part …/data/a/1", "/own …/host/a/2"]);
    expect(mountPoints(harness)).toEqual(["…/data/a/1", "…/host/a/2"]);
    expect(harness.disk.nodes.get("/srv/data/of/web")).toMatchObject({ kind: "directory", mode: 0o750 });
  },
);

apiScenario(
  "a restarted container gets what is in the volume then, and the deleted pod leaves no mount",
  async (harness) => {
    await harness.disk.at("/").makeFolder("/srv/data", 0o750);
    await harness.apply("web", mounting);
    await harness.advance("5s");
    const volume = dataFolder(harness);
    if (volume !== undefined && harness.disk.nodes.get(`${volume}/part`)?.kind === "directory") {
      await harness.disk.at("/").makeFolder(`${volume}/other`, 0o755);
      harness.disk.nodes.delete(`${volume}/part`);
      await harness.disk.at("/").link(`${volume}/part`, "other");
    }
    await harness.exit("a", 1);
    await harness.advance("1m");
    await harness.deletePod("web");
    await harness.advance("1m");
  },
  async (end, harness) => {
    expect(end.api).toEqual([]);
    expect(harness.mounts.mountPoints).toEqual([]);
    expect(harness.disk.paths().filter((path) => path.startsWith("/root/pods/"))).toEqual([]);
    expect(harness.disk.nodes.get("/srv/data/of/web")?.kind).toBe("directory");
  },
  { stride: 3 },
);

apiScenario(
  "a symlink that leaves the volume is refused, and the container starts once it is gone",
  async (harness) => {
    await harness.disk.at("/").makeFolder("/srv/data", 0o750);
    await harness.disk.at("/").link("/srv/data/of", "../../etc");
    await harness.apply("web", mounting);
    await harness.advance("5s");
    const { reason, message } = harness.podReports()[0]?.status.containerStatuses?.[0]?.state?.waiting ?? {};
    harness.appendLog([`${reason}: ${message}`]);
    harness.disk.nodes.delete("/srv/data/of");
    await harness.advance("2m");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(harness.log).toContainEqual(
      expect.stringContaining(
        'CreateContainerConfigError: failed to prepare subPath for volumeMount "host" of container "a"',
      ),
    );
    expect(harness.disk.nodes.has("/etc/web")).toBe(false);
    const failed = (await harness.events("web")).filter((event) => event.includes("Warning"));
    expect(failed).toEqual([
      expect.stringMatching(
        /^\d+x Warning Failed: Error: failed to prepare subPath for volumeMount "host" of container "a"$/,
      ),
    ]);
  },
  { stride: 3, offset: 1 },
);
