import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { ensureRunc, skipWithoutRunc } from "../upstream/runc.ts";
import { podOf } from "./manifest.ts";
import { isReady, startNode, type TestNode } from "./node.ts";

const reason = skipWithoutRunc("pods with user namespaces on a real runtime");

setDefaultTimeout(600_000);

const volumes = [{ name: "shared", emptyDir: {} }];
const volumeMounts = [{ name: "shared", mountPath: "/shared" }];
const userNamespaceSpec = { hostUsers: false, volumes } as const;

/** Runs as root of the container: records its id mappings, changes an owner, and writes a termination message. */
const initScript = [
  "cat /proc/self/uid_map > /shared/uid_map",
  "cat /proc/self/gid_map > /shared/gid_map",
  "mkdir -p /shared/made && chown 1234:5678 /shared/made",
  "cat /etc/hosts > /shared/hosts",
  "echo it was root > /dev/termination-log",
].join(" && ");

let node: TestNode;

describe.skipIf(reason !== undefined)("a pod with hostUsers: false", () => {
  beforeAll(async () => {
    node = await startNode({ version: "2.1", runc: await ensureRunc() });
    const init = [{ name: "tells", image: busyboxImage, command: ["sh", "-c", initScript], volumeMounts }];
    for (const name of ["one", "two"])
      await node.putManifest(podOf(name, { volumeMounts }, { ...userNamespaceSpec, initContainers: init }));
    await node.waitUntilRunning("one", "two");
  }, 600_000);
  afterAll(() => node.tearDown());

  const folderOf = ({ uid }: PodSummary) => join(node.paths.agentRoot, "pods", uid);
  const inVolume = (pod: PodSummary, file: string) =>
    join(folderOf(pod), "volumes/kubernetes.io~empty-dir/shared", file);
  const recorded = async (pod: PodSummary) =>
    JSON.parse(await readFile(join(folderOf(pod), "userns"), "utf8")) as {
      readonly uidMappings: readonly { readonly hostId: number; readonly length: number }[];
    };
  const firstId = async (pod: PodSummary) => (await recorded(pod)).uidMappings[0]?.hostId ?? 0;

  test("maps its users and groups to the node's ids that its userns record names", async () => {
    const pod = await node.waitForPod("one", "it runs", isReady);
    const first = await firstId(pod);
    expect(first).toBeGreaterThanOrEqual(65_536);
    for (const file of ["uid_map", "gid_map"]) {
      const [inside, outside, length] = (await readFile(inVolume(pod, file), "utf8")).trim().split(/\s+/).map(Number);
      expect({ inside, outside, length }).toEqual({ inside: 0, outside: first, length: 65_536 });
    }
  });

  test("writes to its emptyDir with its inner ids, by an id-mapped mount, as without a user namespace", async () => {
    const pod = await node.waitForPod("one", "it runs", isReady);
    const { uid, gid } = await stat(inVolume(pod, "uid_map"));
    expect([uid, gid]).toEqual([0, 0]);
    const made = await stat(inVolume(pod, "made"));
    expect([made.uid, made.gid]).toEqual([1234, 5678]);
    expect(await readFile(inVolume(pod, "hosts"), "utf8")).toContain("# Kubernetes-managed hosts file.");
  });

  test("can write its termination message, which its status shows", async () => {
    const pod = await node.waitForPod("one", "it runs", isReady);
    const ended = pod.status.initContainerStatuses?.[0]?.state?.terminated;
    expect([ended?.exitCode, ended?.message]).toEqual([0, "it was root\n"]);
  });

  test("has ids that no other pod has, and keeps them when the agent is killed and a container is restarted", async () => {
    const before = await node.waitForPod("one", "it runs", isReady);
    const ids = await Promise.all([firstId(before), node.waitForPod("two", "it runs", isReady).then(firstId)]);
    expect(new Set(ids).size).toBe(2);
    await node.agent.kill9();
    const [task] = (await node.containers()).filter(
      ({ metadata, labels }) => metadata?.name === "main" && labels["io.kubernetes.pod.uid"] === before.uid,
    );
    await node.containerd.ctr(["-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", task?.id ?? ""]);
    await node.startAgent();
    const after = await node.waitForPod(
      "one",
      "its container was restarted",
      (pod) => isReady(pod) && pod.restarts === 1,
    );
    expect(await firstId(after)).toBe(ids[0] ?? 0);
  });

  test("has the image's groups with supplementalGroupsPolicy Merge and not with Strict", async () => {
    const securityContext = { runAsUser: 4242, runAsGroup: 3000, supplementalGroups: [5000] };
    const groupsCommand = { command: ["sh", "-c", "id -G > /dev/termination-log"] };
    for (const policy of ["Merge", "Strict"] as const)
      await node.putManifest(
        podOf(policy.toLowerCase(), groupsCommand, {
          restartPolicy: "Never",
          securityContext: { ...securityContext, supplementalGroupsPolicy: policy },
        }),
      );
    const groups = async (name: string) => {
      const { status } = await node.waitForPod(name, "it has ended", ({ phase }) => phase === "Succeeded");
      const [ended] = status.containerStatuses ?? [];
      return { inside: ended?.state?.terminated?.message, reported: ended?.user?.linux?.supplementalGroups };
    };
    expect(await groups("merge")).toEqual({ inside: "3000 5000 50000\n", reported: [3000, 5000, 50_000] });
    expect(await groups("strict")).toEqual({ inside: "3000 5000\n", reported: [3000, 5000] });
  });

  test("leaves no file and no mount", async () => {
    for (const name of ["one", "two", "merge", "strict"]) await node.removeFile(`${name}.yaml`);
    await node.waitUntilEmpty();
    // The root directory itself is a mount point: the agent has made it a shared mount.
    const isLeft = (line: string) => line.includes(node.folder) && line.split(" ")[4] !== node.paths.agentRoot;
    expect((await readFile("/proc/self/mountinfo", "utf8")).split("\n").filter(isLeft)).toEqual([]);
  });
});
