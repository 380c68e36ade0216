import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMounts } from "../../../host/fs/mounts.ts";
import type { Container, ContainerStatus, Pod, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { startSwaps } from "../../contract/swapped-paths.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { script } from "../manifest.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("subPaths of volumes");
const hasEnded = ({ status }: Pod) => status?.phase === "Succeeded" || status?.phase === "Failed";
const endMessages = ({ status }: Pod) =>
  (status?.containerStatuses ?? []).map(({ state }) => state?.terminated?.message ?? JSON.stringify(state));
const mount = (name: string, mountPath: string, subPath: string): VolumeMount => ({ name, mountPath, subPath });
const toTerminationLog = (...commands: readonly string[]) =>
  script(`(${commands.join("; ")}) > /dev/termination-log 2>&1; exit 0`);
const initOf = (text: string, name: string): Container => ({
  name: "init",
  image: busyboxImage,
  imagePullPolicy: "IfNotPresent",
  command: ["sh", "-c", text],
  volumeMounts: [{ name, mountPath: "/data" }],
});

describe.skipIf(skip !== undefined)("a container with subPaths", () => {
  let cluster: ClusterNode;
  let folder: string;
  beforeAll(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), "berth-subpath-")));
    await chmod(folder, 0o711);
    await mkdir(join(folder, "volume"));
    cluster = await startClusterNode();
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await cluster?.tearDown();
    await rm(folder, { recursive: true });
  });

  const waitForPod = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.waitForPods(what, name, (pods) => pods.length === 1 && pods.every(condition), 60_000);
    return pod!;
  };
  const subPathsOf = ({ metadata: { uid = "" } }: Pod) =>
    join(cluster.node.paths.agentRoot, "pods", uid, "volume-subpaths");
  const hostVolume = () => [{ name: "host", hostPath: { path: join(folder, "volume") } }];
  const expectNothingLeft = async () => {
    await cluster.waitUntilEmpty();
    const { agentRoot } = cluster.node.paths;
    expect(await createMounts().mountPointsBelow(join(agentRoot, "pods"))).toEqual([]);
    expect(await readdir(join(agentRoot, "pods"))).toEqual([]);
  };
  const remove = async (...names: readonly string[]) => {
    await cluster.kubectl("delete", "pod", ...names, "--timeout=180s");
    await expectNothingLeft();
  };

  test("sees a key of a ConfigMap, a folder, a symlink in the volume, a missing folder and the path of subPathExpr", async () => {
    await cluster.kubectl("create", "configmap", "site", "--from-literal=a=one");
    const container: Partial<Container> = {
      env: [{ name: "POD", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }],
      volumeMounts: [
        { name: "data", mountPath: "/whole" },
        mount("site", "/etc/a.conf", "a"),
        mount("data", "/there", "there"),
        mount("data", "/linked", "link/file"),
        mount("data", "/made", "new/deep"),
        { name: "data", mountPath: "/own", subPathExpr: "of/$(POD)" },
      ],
      command: toTerminationLog(
        "cat /etc/a.conf /there/file /linked",
        "stat -c %a /made /whole/new /whole/there",
        "touch /own/made",
        "ls /whole/of/kinds",
        "ls /there",
      ),
    };
    const init = initOf("mkdir -m 750 /data/there; echo -n two > /data/there/file; ln -s there /data/link", "data");
    const volumes = [
      { name: "data", emptyDir: {} },
      { name: "site", configMap: { name: "site" } },
    ];
    const spec = { volumes, initContainers: [init], restartPolicy: "Never" as const };
    await cluster.apply([barePod("kinds", container, spec)]);
    const pod = await waitForPod("kinds", "it has ended", hasEnded);
    expect(endMessages(pod)).toEqual(["onetwotwo777\n777\n750\nmade\nfile\n"]);
    await remove("kinds");
  });

  test("keeps the content of a ConfigMap that is edited while it runs, and gets the new one when it restarts", async () => {
    await cluster.kubectl("create", "configmap", "edited", "--from-literal=a=one");
    const container: Partial<Container> = {
      volumeMounts: [mount("site", "/etc/a.conf", "a"), { name: "data", mountPath: "/data" }],
      command: script("until [ -e /data/go ]; do sleep 0.1; done; rm /data/go; cat /etc/a.conf > /dev/termination-log"),
    };
    const volumes = [
      { name: "site", configMap: { name: "edited" } },
      { name: "data", emptyDir: {} },
    ];
    await cluster.apply([barePod("edited", container, { volumes, terminationGracePeriodSeconds: 1 })]);
    const pod = await waitForPod("edited", "it is up", areContainersReady);
    const volume = (plugin: string, name: string) =>
      join(cluster.node.paths.agentRoot, "pods", pod.metadata.uid ?? "", "volumes", `kubernetes.io~${plugin}`, name);
    await cluster.kubectl("patch", "configmap", "edited", "--patch", JSON.stringify({ data: { a: "two" } }));
    const inVolume = join(volume("configmap", "site"), "a");
    await pollUntil("the new value", 10_000, async () => (await readFile(inVolume, "utf8")) === "two");
    expect(await readFile(join(subPathsOf(pod), "site/main/0"), "utf8")).toBe("one");
    await writeFile(join(volume("empty-dir", "data"), "go"), "");
    const restarted = await waitForPod("edited", "it has restarted", (each) =>
      Boolean(areContainersReady(each) && each.status?.containerStatuses?.[0]?.restartCount === 1),
    );
    expect(restarted.status?.containerStatuses?.[0]?.lastState?.terminated?.message).toBe("one");
    expect(await readFile(join(subPathsOf(pod), "site/main/0"), "utf8")).toBe("two");
    await remove("edited");
  });

  test("waits, and says in the kubelet's words why, while its path leaves the volume or a variable is missing", async () => {
    const init = initOf("ln -s / /data/root; ln -s ../.. /data/up", "data");
    const containers: readonly (readonly [mount: VolumeMount, message: string])[] = [
      [mount("data", "/v", "root"), 'failed to prepare subPath for volumeMount "data" of container "main"'],
      [mount("data", "/v", "up/new"), 'failed to prepare subPath for volumeMount "data" of container "c1"'],
      [{ name: "data", mountPath: "/v", subPathExpr: "$(NONE)/x" }, "missing value for NONE"],
    ];
    const { spec, ...pod } = barePod(
      "leaves",
      {},
      { volumes: [{ name: "data", emptyDir: {} }], initContainers: [init] },
    );
    const [main] = spec.containers;
    const all = containers.map(([each], index) => ({
      ...main!,
      name: index === 0 ? "main" : `c${index}`,
      volumeMounts: [each],
    }));
    await cluster.apply([{ ...pod, spec: { ...spec, containers: all } }]);
    const isRefused = ({ state }: ContainerStatus) => state?.waiting?.reason === "CreateContainerConfigError";
    const waiting = await waitForPod(
      "leaves",
      "all wait",
      ({ status }) => status?.containerStatuses?.filter(isRefused).length === all.length,
    );
    const byName = new Map(
      waiting.status?.containerStatuses?.map(({ name, state }) => [name, state?.waiting?.message]),
    );
    expect(all.map(({ name }) => byName.get(name) ?? "")).toEqual(containers.map(([, message]) => message));
    const expectedEvents = containers.map(([, message]) => `Failed: Error: ${message}`);
    // The status may be reported before the events.
    await pollUntil(`the events ${expectedEvents.join(", ")}`, 10_000, async () => {
      const events = parseDescribedEvents(await cluster.kubectl("describe", "pod", "leaves"));
      const seen = events.map(({ reason, message }) => `${reason}: ${message}`);
      return expectedEvents.every((event) => seen.includes(event));
    });
    const podDir = join(cluster.node.paths.agentRoot, "pods", waiting.metadata.uid ?? "");
    expect(await readdir(join(podDir, "volumes"))).toEqual(["kubernetes.io~empty-dir"]);
    await remove("leaves");
  });

  test("never sees a folder outside, while folder and symlink are swapped ten thousand times", async () => {
    const swapped = await startSwaps(folder);
    const names = ["one", "two", "three"];
    try {
      const look = toTerminationLog("if [ -e /v/secret ]; then cat /v/secret; else echo -n inside; fi");
      const pods = names.map((name) => {
        const { spec, ...pod } = barePod(name, {}, { volumes: hostVolume(), restartPolicy: "Never" });
        const containers = Array.from({ length: 8 }, (_, index) => ({
          ...spec.containers[0]!,
          name: `c${index}`,
          command: look,
          volumeMounts: [mount("host", "/v", index % 2 === 0 ? "dir" : "dir/sub")],
        }));
        return { ...pod, spec: { ...spec, containers } };
      });
      await cluster.apply(pods);
      await pollUntil("ten thousand swaps", 60_000, () => swapped.swaps() >= 10_000);
      await pollUntil("a container to end", 60_000, async () =>
        (await cluster.pods()).some(({ status }) =>
          status?.containerStatuses?.some(({ state }) => state?.terminated !== undefined),
        ),
      );
    } finally {
      await swapped.end();
    }
    for (const name of names) {
      const pod = await waitForPod(name, "it has ended", hasEnded);
      expect(endMessages(pod)).toEqual(Array.from({ length: 8 }, () => "inside"));
    }
    console.log(`${swapped.swaps()} swaps`);
    expect((await readdir(swapped.outside, { recursive: true })).toSorted()).toEqual(["secret", "sub", "sub/secret"]);
    await remove(...names);
  });

  test("keeps its mounts over kill -9 of the agent, and nothing is left after one while the pod starts or ends", async () => {
    const container: Partial<Container> = {
      command: script("while true; do sleep 0.1; done"),
      volumeMounts: [mount("data", "/a", "a"), mount("host", "/b", "kept/b"), mount("host", "/c", "kept/c")],
    };
    const volumes = [{ name: "data", emptyDir: { medium: "Memory" } }, ...hostVolume()];
    await cluster.apply([barePod("killed", container, { volumes, terminationGracePeriodSeconds: 1 })]);
    const { uid = "" } = (await cluster.pod("killed")).metadata;
    const mountPoints = () => createMounts().mountPointsBelow(join(cluster.node.paths.agentRoot, "pods", uid));
    const isMounted = async () => (await mountPoints()).some((each) => each.includes("volume-subpaths"));
    await pollUntil("the first mount", 30_000, isMounted, 1);
    await cluster.node.agent.kill9();
    await cluster.node.launchAgent();
    const pod = await waitForPod("killed", "it is up", areContainersReady);
    expect((await mountPoints()).filter((each) => each.startsWith(subPathsOf(pod)))).toHaveLength(3);

    await cluster.kubectl("delete", "pod", "killed", "--wait=false");
    await pollUntil("the first unmount", 30_000, async () => (await mountPoints()).length < 4, 1);
    await cluster.node.agent.kill9();
    await cluster.node.launchAgent();
    await expectNothingLeft();
    expect((await readdir(join(folder, "volume/kept"))).toSorted()).toEqual(["b", "c"]);
  });
});
