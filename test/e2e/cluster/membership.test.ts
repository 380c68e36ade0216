import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { closeSync, constants, openSync, readFileSync, writeFileSync } from "node:fs";
import { readdir, readlink } from "node:fs/promises";
import { execa } from "execa";
import { readMachine } from "../../../host/machine.ts";
import type { Event, Lease, Node as NodeObject } from "../../../proto/kubernetes/gen/types.ts";
import { builtBinary } from "../../bed/agent.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { KubectlVersion } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { podOf } from "../manifest.ts";
import { barePod, daemonSet, deployment } from "./api-objects.ts";
import { checkDiskFault, diskFaults } from "./disk-faults.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode, uidsOf } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("a node of a cluster");

/** Why this test cannot write to the kernel log; undefined if it can. */
function whyKernelLogIsUnavailable(): "unreadable" | "unwritable" | undefined {
  const may = (mode: number) => {
    try {
      closeSync(openSync("/dev/kmsg", mode | constants.O_NONBLOCK));
      return true;
    } catch {
      // Sandboxes hide /dev/kmsg or forbid writing.
      return false;
    }
  };
  if (!may(constants.O_RDONLY)) return "unreadable";
  const mode = readFileSync("/proc/sys/kernel/printk_devkmsg", "utf8").trim();
  return mode === "off" || !may(constants.O_WRONLY) ? "unwritable" : undefined;
}

const kernelLogProblem = whyKernelLogIsUnavailable();
if (kernelLogProblem !== undefined)
  console.warn(`skipped: the event SystemOOM, since /dev/kmsg is ${kernelLogProblem} here`);

/** Writes the kernel's log lines of an OOM kill to /dev/kmsg. No process is killed. */
function writeOomKill(name: string, pid: number): void {
  for (const message of [
    `${name} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0`,
    `oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=${name},pid=${pid},uid=0`,
    `Out of memory: Killed process ${pid} (${name}) total-vm:1888680kB, anon-rss:1859848kB, file-rss:1880kB`,
  ])
    writeFileSync("/dev/kmsg", `${message}\n`);
}

describe.skipIf(skip !== undefined)("a node of a cluster", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  const kubectl = (...args: readonly string[]) => cluster.kubectl(...args);
  const older = (...args: readonly string[]) => cluster.plane.kubectl(args, { version: "1.32" });
  const node = async () => JSON.parse(await kubectl("get", "node", "node-a", "--output=json")) as NodeObject;
  const taints = () => kubectl("get", "node", "node-a", "--output=jsonpath={.spec.taints[*].key}");
  const staticPod = () => cluster.pod("still-node-a");
  const containerOf = async () => (await staticPod()).status?.containerStatuses?.[0]?.containerID;

  test.each<KubectlVersion>(["1.36", "1.32"])("is Ready to kubectl %s", async (version) => {
    const shown = await cluster.plane.kubectl(["get", "nodes", "--output=wide", "--no-headers"], { version });
    expect(shown).toMatch(
      /^node-a +Ready +<none> +(\d+m(\d+s)?|\d+s) +v1\.36\.\d+\S* +[\d.]+ +<none> +\S.* +\S+ +containerd:\/\/1\.6\.\d+\S*$/,
    );
    const described = await cluster.plane.kubectl(["describe", "node", "node-a"], { version });
    expect(described).toMatch(/^ +Ready +True +.* +KubeletReady +kubelet is posting ready status$/m);
  });

  test("renews a lease that is owned by its Node object", async () => {
    await kubectl("wait", "--for=create", "lease/node-a", "--namespace=kube-node-lease", "--timeout=180s");
    const lease = JSON.parse(
      await kubectl("get", "lease", "node-a", "--namespace=kube-node-lease", "--output=json"),
    ) as Lease;
    expect(lease.spec?.holderIdentity).toBe("node-a");
    expect(lease.metadata?.ownerReferences?.map(({ uid }) => uid)).toEqual([(await node()).metadata.uid!]);
  });

  test("berth status shows the connection, the lease, the node status and the watch", async () => {
    const argv = ["status", "--root-dir", cluster.node.paths.agentRoot];
    const { stdout } = await execa(builtBinary, argv, { timeout: 60_000 });
    for (const line of [
      /^node +node-a, v1\.36\.\d+\+berth$/m,
      /^cluster +127\.0\.0\.1:\d+, connected since \S+Z \(\d+s\)$/m,
      /^lease +renewed \d+s ago$/m,
      /^node status +reported \d+s ago$/m,
      /^watch of pods +updated \d+s ago$/m,
    ])
      expect(stdout).toMatch(line);
  });

  test.each<KubectlVersion>(["1.36", "1.32"])(
    "creates the mirror of its static pod again when kubectl %s deletes it, and the static pod keeps running",
    async (version) => {
      const by = (...args: readonly string[]) => cluster.plane.kubectl(args, { version });
      await cluster.node.putManifest(podOf("still", {}, { automountServiceAccountToken: false }));
      await by("wait", "--for=create", "pod/still-node-a", "--timeout=180s");
      await by("wait", "--for=condition=Ready", "pod/still-node-a", "--timeout=180s");
      const [before, container] = [await staticPod(), await containerOf()];
      expect(before.metadata.annotations?.["kubernetes.io/config.source"]).toBe("file");

      expect(await by("delete", "pod", "still-node-a", "--timeout=180s")).toContain('pod "still-node-a" deleted');
      await by("wait", "--for=create", "pod/still-node-a", "--timeout=180s");
      await by("wait", "--for=condition=Ready", "pod/still-node-a", "--timeout=180s");
      expect((await staticPod()).metadata.uid).not.toBe(before.metadata.uid);
      expect(await containerOf()).toBe(container);
      expect((await cluster.runningUids()).containers).toHaveLength(1);
    },
  );

  test("reports MemoryPressure while less memory is available than its eviction threshold", async () => {
    const pressure = async () =>
      await kubectl("get", "node", "node-a", "--output=jsonpath={.status.conditions[?(@.status=='True')].reason}");
    const restart = async (configuration: Readonly<Record<string, unknown>>) => {
      await cluster.node.agent.stop();
      await cluster.node.startAgent(configuration);
    };
    expect(await pressure()).toBe("KubeletReady");
    await restart({ evictionHard: { "memory.available": "99%" } });
    await pollUntil("the pressure", 20_000, async () => (await pressure()).includes("KubeletHasInsufficientMemory"));
    const described = await kubectl("describe", "node", "node-a");
    expect(described).toMatch(
      /^ +MemoryPressure +True .* KubeletHasInsufficientMemory +kubelet has insufficient memory available$/m,
    );
    await pollUntil("the taint of it", 20_000, async () =>
      (await taints()).includes("node.kubernetes.io/memory-pressure"),
    );
    await restart({});
    await pollUntil("its end", 20_000, async () => (await pressure()) === "KubeletReady");
    await pollUntil("no taint", 20_000, async () => (await taints()) === "");
    const ofMachine = readMachine().hasCgroupV2 ? [] : ["CgroupV1"];
    const ofMemory = ["NodeHasInsufficientMemory", "NodeHasSufficientMemory"];
    const expectedReasons = ["Starting", "NodeReady", ...ofMachine, ...ofMemory];
    // Events are sent in parallel to the status.
    await pollUntil(`the events ${expectedReasons}`, 20_000, async () => {
      const reasons = parseDescribedEvents(await kubectl("describe", "node", "node-a")).map(({ reason }) => reason);
      return expectedReasons.every((reason) => reasons.includes(reason));
    });
  });

  test.each<KubectlVersion>(["1.36", "1.32"])(
    "can be cordoned, drained and uncordoned by kubectl %s",
    async (version) => {
      const by = (...args: readonly string[]) => cluster.plane.kubectl(args, { version });
      const container = await containerOf();
      await cluster.apply([deployment("movable", 3), daemonSet("everywhere")], version);
      await by("rollout", "status", "deployment/movable", "--timeout=180s");
      await by("rollout", "status", "daemonset/everywhere", "--timeout=180s");
      const before = uidsOf(await cluster.pods("movable"));

      await by("cordon", "node-a");
      expect(await by("get", "node", "node-a", "--no-headers")).toContain("Ready,SchedulingDisabled");
      const said = await by("drain", "node-a", "--ignore-daemonsets", "--timeout=180s");
      expect(said.match(/^pod\/movable-\S+ evicted$/gm)).toHaveLength(3);
      expect(said).toContain("node/node-a drained");
      const waiting = await cluster.waitForPods(
        "three wait",
        "movable",
        (pods) => pods.length === 3 && pods.every(({ status }) => status?.phase === "Pending"),
      );
      expect(uidsOf(waiting).filter((uid) => before.includes(uid))).toEqual([]);
      // The static pod and the daemon set's are not drained.
      await pollUntil("two sandboxes", 10_000, async () => (await cluster.node.sandboxes()).length === 2);
      expect((await cluster.runningUids()).containers).toHaveLength(2);

      await by("uncordon", "node-a");
      await by("rollout", "status", "deployment/movable", "--timeout=180s");
      expect(await containerOf()).toBe(container);
    },
  );

  test("ends only the pods that do not tolerate its NoExecute taint", async () => {
    const toleration = { key: "maintenance", operator: "Exists", effect: "NoExecute" } as const;
    await cluster.apply([barePod("patient", {}, { tolerations: [toleration] })]);
    await kubectl("wait", "--for=condition=Ready", "pod/patient", "--timeout=180s");
    const [container, patient] = [await containerOf(), await cluster.pod("patient")];

    await older("taint", "node", "node-a", "maintenance=now:NoExecute");
    await pollUntil("two sandboxes", 30_000, async () => (await cluster.node.sandboxes()).length === 2);
    // A pod is deleted from the API when nothing of it is left on the node.
    await cluster.waitForPods(
      "three others wait",
      "movable",
      (pods) => pods.length === 3 && pods.every(({ status }) => status?.phase === "Pending"),
    );
    expect(await cluster.pod("patient")).toEqual(patient);
    expect(await containerOf()).toBe(container);

    await kubectl("taint", "node", "node-a", "maintenance-");
    await kubectl("rollout", "status", "deployment/movable", "--timeout=180s");
    await kubectl("rollout", "status", "daemonset/everywhere", "--timeout=180s");
    await cluster.waitForPods("three are up", "movable", (pods) => pods.length === 3 && pods.every(areContainersReady));
  });

  test("has nothing left of a static pod after its manifest is removed, nor of deleted pods", async () => {
    await cluster.node.removeFile("still.yaml");
    await kubectl("wait", "--for=delete", "pod/still-node-a", "--timeout=180s");
    await kubectl("delete", "deployment/movable", "daemonset/everywhere", "pod/patient", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("registers again when its Node object is deleted, and runs pods as before", async () => {
    const uid = () => kubectl("get", "node", "node-a", "--output=jsonpath={.metadata.uid}");
    const before = await uid();
    await kubectl("delete", "node", "node-a", "--timeout=180s");
    await kubectl("wait", "--for=create", "node/node-a", "--timeout=180s");
    await kubectl("wait", "--for=condition=Ready", "node/node-a", "--timeout=180s");
    expect(await uid()).not.toBe(before);
    const owner = "--output=jsonpath={.metadata.ownerReferences[*].uid}";
    // The lease is missing for a while; the timeout reports any other failure.
    const ownerOfLease = () => kubectl("get", "lease", "node-a", "--namespace=kube-node-lease", owner).catch(() => "");
    await pollUntil("a lease of the new object", 30_000, async () => (await ownerOfLease()) === (await uid()));

    await cluster.apply([barePod("after")]);
    await kubectl("wait", "--for=condition=Ready", "pod/after", "--timeout=180s");
    await kubectl("delete", "pod", "after", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("reports its images, the largest first", async () => {
    const images = await pollUntil("its images", 30_000, async () => (await node()).status?.images);
    expect(images.flatMap(({ names = [] }) => names)).toContain(busyboxImage);
    const sizes = images.map(({ sizeBytes = 0 }) => sizeBytes);
    expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
  });

  // Registered only where /dev/kmsg cannot be read: this test and the next one exclude each other.
  if (kernelLogProblem === "unreadable")
    test("logs that it cannot read the kernel log, and runs on", async () => {
      await cluster.node.waitForLogLine("cannot read the kernel log: SystemOOM events will not be reported");
    });

  test.skipIf(kernelLogProblem !== undefined)(
    "sends one SystemOOM event for each OOM kill of the machine, also after a restart of the agent",
    async () => {
      // Other agents of this machine read the same log: the name tells the tests apart.
      const name = `oom-${process.pid}`;
      const readEvents = async () => {
        const selector = "--field-selector=reason=SystemOOM,involvedObject.name=node-a";
        const list = JSON.parse(await kubectl("get", "events", "--namespace=default", selector, "--output=json")) as {
          readonly items: readonly Event[];
        };
        return list.items.flatMap(({ type, message = "", count }) =>
          message.includes(name) ? [`${type} ${message}, reported ${count} times`] : [],
        );
      };
      // The agent ignores lines from before its start.
      const waitForKernelLogReader = async () => {
        const files = `/proc/${cluster.node.agent.pid}/fd`;
        const isKernelLog = (name: string) =>
          readlink(`${files}/${name}`).then(
            (path) => path === "/dev/kmsg",
            () => false,
          );
        await pollUntil("the agent to listen to the kernel", 20_000, async () =>
          (await Promise.all((await readdir(files)).map(isKernelLog))).includes(true),
        );
      };
      const first = `Warning System OOM encountered, victim process: ${name}, pid: 1, reported 1 times`;
      const second = `Warning System OOM encountered, victim process: ${name}, pid: 2, reported 1 times`;
      await waitForKernelLogReader();
      writeOomKill(name, 1);
      await pollUntil("an event", 20_000, async () => (await readEvents()).includes(first));
      await cluster.node.agent.stop();
      await cluster.node.startAgent();
      await waitForKernelLogReader();
      writeOomKill(name, 2);
      await pollUntil("the next event", 20_000, async () => (await readEvents()).includes(second));
      expect((await readEvents()).toSorted()).toEqual([first, second]);
    },
  );

  test("keeps its labels and taints after a restart of the agent, and devices of an earlier agent become unavailable", async () => {
    await cluster.node.agent.stop();
    await kubectl("label", "node", "node-a", "--overwrite", "team=edge", "kubernetes.io/hostname=wrong");
    await kubectl("annotate", "node", "node-a", "example.com/note=kept");
    await kubectl("taint", "node", "node-a", "example.com/role=edge:PreferNoSchedule");
    const devices = JSON.stringify({
      status: { capacity: { "example.com/dongle": "2" }, allocatable: { "example.com/dongle": "2" } },
    });
    await kubectl("patch", "node", "node-a", "--subresource=status", "--type=strategic", `--patch=${devices}`);
    await cluster.node.startAgent({ registerWithTaints: [{ key: "example.com/late", effect: "NoSchedule" }] });
    await pollUntil(
      "the devices' end",
      20_000,
      async () => (await node()).status?.capacity?.["example.com/dongle"] === "0",
    );
    const { metadata, spec, status } = await node();
    expect(metadata.labels).toMatchObject({ team: "edge", "kubernetes.io/hostname": "node-a" });
    expect(metadata.annotations).toMatchObject({
      "example.com/note": "kept",
      "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    });
    expect(spec.taints).toEqual([{ key: "example.com/role", value: "edge", effect: "PreferNoSchedule" }]);
    expect(status?.allocatable?.["example.com/dongle"]).toBe("0");
  });

  test.each(diskFaults)(
    "sends exits, its lease and its status while the disk of its root directory is $name, and starts new pods once it works",
    (fault) => checkDiskFault(cluster, fault),
  );

  test("logs with registerNode false that it waits for its Node object, and is Ready when the object is created", async () => {
    await cluster.node.agent.stop();
    await kubectl("delete", "node", "node-a", "--timeout=180s");
    await cluster.node.startAgent({ registerNode: false });
    await cluster.node.waitForLogLine("the cluster has no Node node-a, and registerNode is false: create it");
    const argv = ["status", "--root-dir", cluster.node.paths.agentRoot];
    const { stdout } = await execa(builtBinary, argv, { timeout: 60_000 });
    expect(stdout).toMatch(
      /^node status +not reported yet: the cluster has no Node node-a, .* set registerNode to true\b/m,
    );

    const labels = { team: "edge" };
    await cluster.apply([
      { apiVersion: "v1", kind: "Node", metadata: { name: "node-a", labels } as { name: string }, spec: {} },
    ]);
    await kubectl("wait", "--for=condition=Ready", "node/node-a", "--timeout=180s");
    expect((await node()).metadata.labels).toMatchObject({ team: "edge", "kubernetes.io/arch": expect.any(String) });
    await cluster.apply([barePod("welcome")]);
    await kubectl("wait", "--for=condition=Ready", "pod/welcome", "--timeout=180s");
    await kubectl("delete", "pod", "welcome", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });
});
