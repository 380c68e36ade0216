// The cgroups of pods and of the node: made before the first container, repaired, and removed after the last one.
import { expect, test } from "bun:test";
import { cgroupRule } from "../../agent/decide/node/cgroup-rule.ts";
import type { NodeRule } from "../../agent/decide/node/node.ts";
import { CgroupError } from "../../cgroups/error.ts";
import { podCgroupName } from "../../proto/cgroup/cgroup-name.ts";
import type { Pod, PodQOSClass, ResourceRequirements } from "../../proto/kubernetes/gen/types.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const options = { hasCgroups: true, nodeRules: [cgroupRule as NodeRule] } as const;

const podWith = (name: string, resources: ResourceRequirements): Pod =>
  makePod(name, { containers: [{ name: "a", image: "busybox:1", resources }] });

const guaranteed = { limits: { cpu: "1", memory: "128Mi" } };
const burstable = { requests: { cpu: "250m", memory: "64Mi" } };

const cgroupOf = (pod: Pod, qosClass: PodQOSClass) => podCgroupName(pod.metadata.uid ?? "", qosClass);

/** The parent cgroups that sandboxes and containers were created with. */
const parentsOf = ({ runtime }: AgentHarness) =>
  [...runtime.sandboxes.values()].map(({ config }) => config.linux?.cgroupParent.replace(/pod[0-9a-f-]+/, "podUID"));

scenario(
  "each pod gets a cgroup below that of its class, and the weight of Burstable pods follows their requests",
  {
    options,
    async run(harness) {
      await harness.setManifests(podWith("fixed", guaranteed), podWith("web", burstable), makePod("batch"));
      await harness.advance("5s");
      harness.appendLog(parentsOf(harness).map((parent) => `sandbox in ${parent}`));
      harness.appendLog(harness.nodeSnapshot().filter((line) => line.startsWith("cgroup")));
      await harness.setManifests(podWith("fixed", guaranteed));
      await harness.advance("60s");
      expect(harness.cgroups.names.filter((name) => name.includes("/pod"))).toHaveLength(1);
    },
  },
  (log) => {
    expect(filterLines(log, /cgroup|sandbox/)).toMatchInlineSnapshot(`
      "0s write memory.max 8589934592, cpu.weight 157, cpuset.cpus 0-3 to cgroup kubepods: it does not exist
      0s write cpu.weight 1 to cgroup kubepods/burstable: it does not exist
      0s write cpu.weight 1 to cgroup kubepods/besteffort: it does not exist
      0s fixed: create the pod's cgroup
      0s web: create the pod's cgroup
      0s batch: create the pod's cgroup
      0s fixed: run sandbox (attempt 0): the pod has none
      0s web: run sandbox (attempt 0): the pod has none
      0s batch: run sandbox (attempt 0): the pod has none
      1s write cpu.weight 10 to cgroup kubepods/burstable: it has cpu.weight 1
      5s sandbox in /kubepods/podUID
      5s sandbox in /kubepods/burstable/podUID
      5s sandbox in /kubepods/besteffort/podUID
      5s cgroup kubepods memory.min 0, memory.low 0, memory.high max, memory.max 8589934592, memory.swap.max max, memory.oom.group 0, cpu.weight 157, cpu.max max 100000, cpuset.cpus 0-3, pids.max max, hugetlb.2MB.max max, hugetlb.1GB.max max
      5s cgroup kubepods/besteffort memory.min 0, memory.low 0, memory.high max, memory.max max, memory.swap.max max, memory.oom.group 0, cpu.weight 1, cpu.max max 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max max, hugetlb.1GB.max max
      5s cgroup kubepods/besteffort/podUID memory.min 0, memory.low 0, memory.high max, memory.max max, memory.swap.max max, memory.oom.group 0, cpu.weight 1, cpu.max max 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max 0, hugetlb.1GB.max 0
      5s cgroup kubepods/burstable memory.min 0, memory.low 0, memory.high max, memory.max max, memory.swap.max max, memory.oom.group 0, cpu.weight 10, cpu.max max 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max max, hugetlb.1GB.max max
      5s cgroup kubepods/burstable/podUID memory.min 0, memory.low 0, memory.high max, memory.max max, memory.swap.max max, memory.oom.group 0, cpu.weight 10, cpu.max max 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max 0, hugetlb.1GB.max 0
      5s cgroup kubepods/podUID memory.min 0, memory.low 0, memory.high max, memory.max 134217728, memory.swap.max max, memory.oom.group 0, cpu.weight 39, cpu.max 100000 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max 0, hugetlb.1GB.max 0
      5s write cpu.weight 1 to cgroup kubepods/burstable: it has cpu.weight 10
      5s web: stop sandbox: its manifest is gone
      5s web: remove sandbox: its manifest is gone
      5s web: remove the pod's cgroup: its manifest is gone
      5s batch: stop sandbox: its manifest is gone
      5s batch: remove sandbox: its manifest is gone
      5s batch: remove the pod's cgroup: its manifest is gone"
    `);
  },
);

scenario(
  "limits that another program has changed are written again within five minutes",
  {
    options,
    async run(harness) {
      const pod = podWith("web", guaranteed);
      await harness.setManifests(pod);
      await harness.advance("5s");
      harness.cgroups.change(cgroupOf(pod, "Guaranteed"), { memoryMax: "max", cpuWeight: 1 });
      harness.cgroups.change(["kubepods"], { memoryMax: 2 ** 20 });
      await harness.advance("310s");
    },
  },
  (log) => {
    expect(filterLines(log, /write/)).toMatchInlineSnapshot(`
      "0s write memory.max 8589934592, cpu.weight 157, cpuset.cpus 0-3 to cgroup kubepods: it does not exist
      0s write cpu.weight 1 to cgroup kubepods/burstable: it does not exist
      0s write cpu.weight 1 to cgroup kubepods/besteffort: it does not exist
      60s write memory.max 8589934592 to cgroup kubepods: it has memory.max 1048576
      310s web: write memory.max 134217728, cpu.weight 39 to the pod's cgroup: it has other limits"
    `);
  },
);

scenario(
  "a cgroup that cannot be made holds up its own pod, with the kernel's reason, until it can",
  {
    options,
    async run(harness) {
      const pod = podWith("web", burstable);
      harness.cgroups.before = (verb, name) => {
        if (verb === "make" && name.at(-1)?.startsWith("pod"))
          throw new CgroupError("ENOSPC", "/sys/fs/cgroup/x", undefined, "cannot create /sys/fs/cgroup/x: ENOSPC");
      };
      await harness.setManifests(pod);
      await harness.advance("5s");
      harness.cgroups.before = () => {};
      await harness.advance("30s");
    },
  },
  (log) => {
    expect(filterLines(log, /web/)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: failed to create the pod's cgroup: unable to ensure pod container exists: cannot create /sys/fs/cgroup/x: ENOSPC
      0s web: create the pod's log directory
      0s web: create the pod's directories
      1s web: failed to create the pod's cgroup: unable to ensure pod container exists: cannot create /sys/fs/cgroup/x: ENOSPC
      3s web: failed to create the pod's cgroup: unable to ensure pod container exists: cannot create /sys/fs/cgroup/x: ENOSPC
      7s web: create the pod's cgroup
      7s web: run sandbox (attempt 0): the pod has none
      7s web: create container a (attempt 0): it has not run yet
      7s web: start container a (attempt 0)
      7s report web Running, ready: a running"
    `);
  },
);

scenario(
  "the cgroup of a pod that ended while no agent ran is removed, and cgroups of others stay",
  {
    options,
    before(harness) {
      harness.cgroups.add(podCgroupName("11111111-2222-3333-4444-555555555555", "Burstable"));
      for (const other of ["special", "podman-machine", "pods"]) harness.cgroups.add(["kubepods", other]);
      harness.cgroups.add(["system"]);
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("10s");
      expect(harness.cgroups.names.map((name) => name.replace(/pod[0-9a-f-]{32,}$/, "podUID"))).toEqual([
        "kubepods",
        "kubepods/besteffort",
        "kubepods/besteffort/podUID",
        "kubepods/burstable",
        "kubepods/podman-machine",
        "kubepods/pods",
        "kubepods/special",
        "system",
      ]);
    },
  },
  (log) => {
    expect(filterLines(log, /remove/)).toMatchInlineSnapshot(
      `"0s remove the pod's cgroup: no source asks for this pod"`,
    );
  },
);

scenario(
  "a completed pod has no cgroup any more",
  {
    options,
    async run(harness) {
      await harness.setManifests(makePod("job", { restartPolicy: "Never" }));
      await harness.advance("5s");
      await harness.exit("a", 0);
      await harness.advance("5s");
      expect(harness.cgroups.names).toEqual(["kubepods", "kubepods/besteffort", "kubepods/burstable"]);
    },
  },
  (log) => {
    expect(filterLines(log, /cgroup|report/)).toMatchInlineSnapshot(`
      "0s write memory.max 8589934592, cpu.weight 157, cpuset.cpus 0-3 to cgroup kubepods: it does not exist
      0s write cpu.weight 1 to cgroup kubepods/burstable: it does not exist
      0s write cpu.weight 1 to cgroup kubepods/besteffort: it does not exist
      0s report job Pending: a waiting ContainerCreating
      0s job: create the pod's cgroup
      0s report job Running, ready: a running
      5s report job Succeeded, terminating: a terminated Completed 0
      5s job: remove the pod's cgroup: all its containers are done
      5s report job Succeeded, terminated: a terminated Completed 0"
    `);
  },
);

scenario(
  "a limit that another program has raised is not written below what the pod uses, and the other limits are",
  {
    options,
    async run(harness) {
      const pod = podWith("web", guaranteed);
      await harness.setManifests(pod);
      await harness.advance("5s");
      const name = cgroupOf(pod, "Guaranteed");
      harness.cgroups.useMemory(name, 200 * 2 ** 20);
      harness.cgroups.change(name, { memoryMax: "max", cpuWeight: 1 });
      await harness.advance("310s");
      expect(harness.cgroups.limitsOf(name)).toMatchObject({ memoryMax: "max", cpuWeight: 39 });
      harness.cgroups.useMemory(name, 100 * 2 ** 20);
      await harness.advance("400s");
      expect(harness.cgroups.limitsOf(name)).toMatchObject({ memoryMax: 128 * 2 ** 20 });
    },
  },
  (log) => {
    expect(filterLines(log, /write .* pod's cgroup/).split("\n")[0]).toMatchInlineSnapshot(
      `"310s web: failed to write memory.max 134217728, cpu.weight 39 to the pod's cgroup: it has other limits: unable to ensure pod container exists: cgroup kubepods/podc0e346a1bc3731f280d1bd72a6023848 uses 209715200 bytes of memory without its page cache, and its limit is 134217728: the limit is written when it uses less"`,
    );
  },
);

scenario(
  "a pod whose sandbox an earlier agent ran without a cgroup keeps it, and gets a cgroup with its next sandbox",
  {
    options,
    async run(harness) {
      await harness.setManifests(podWith("web", guaranteed));
      await harness.advance("5s");
      harness.kill();
      harness.cgroups.reboot();
      await harness.start();
      await harness.advance("5s");
      harness.appendLog(harness.cgroups.names.filter((name) => name.includes("/pod")));
      await harness.exit("a", 1);
      await harness.advance("60s");
      expect(harness.cgroups.names.filter((name) => name.includes("/pod"))).toEqual([]);
      const [sandbox] = harness.runtime.sandboxes.values();
      if (sandbox !== undefined) void harness.runtime.stopPodSandbox(sandbox.id);
      await harness.advance("60s");
      expect(parentsOf(harness)).toContain("/kubepods/podUID");
    },
  },
  (log) => {
    expect(filterLines(log, /cgroup|attempt/)).toMatchInlineSnapshot(`
      "0s write memory.max 8589934592, cpu.weight 157, cpuset.cpus 0-3 to cgroup kubepods: it does not exist
      0s write cpu.weight 1 to cgroup kubepods/burstable: it does not exist
      0s write cpu.weight 1 to cgroup kubepods/besteffort: it does not exist
      0s web: create the pod's cgroup
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      5s write memory.max 8589934592, cpu.weight 157, cpuset.cpus 0-3 to cgroup kubepods: it does not exist
      5s write cpu.weight 1 to cgroup kubepods/burstable: it does not exist
      5s write cpu.weight 1 to cgroup kubepods/besteffort: it does not exist
      10s web: create container a (attempt 1): it exited with code 1
      10s web: start container a (attempt 1)
      70s web: create the pod's cgroup
      70s web: run sandbox (attempt 1): the last one is not ready
      80s web: create container a (attempt 2): it exited with code 137
      80s web: start container a (attempt 2)"
    `);
  },
);

scenario(
  "the cgroup of a pod is removed after its volumes, and has the least share of the CPU while one is busy",
  {
    options,
    async run(harness) {
      const volumes = [{ name: "memory", emptyDir: { medium: "Memory" as const } }];
      const volumeMounts = [{ name: "memory", mountPath: "/memory" }];
      await harness.setManifests(
        makePod("web", {
          containers: [{ name: "a", image: "busybox:1", resources: burstable, volumeMounts }],
          volumes,
        }),
      );
      await harness.advance("5s");
      const [mountPoint = ""] = harness.mounts.mountPoints.filter((path) => path.endsWith("/memory"));
      harness.mounts.openFiles.add(`${mountPoint}/file`);
      await harness.setManifests();
      await harness.advance("20s");
      harness.mounts.openFiles.clear();
      await harness.advance("60s");
      expect(harness.cgroups.names.filter((name) => name.includes("/pod"))).toEqual([]);
    },
  },
  (log) => {
    expect(filterLines(log, /pod's cgroup|volume memory/)).toMatchInlineSnapshot(`
      "0s web: create the pod's cgroup
      0s web: set up volume memory
      5s web: failed to remove volume memory: its manifest is gone: /root/pods/d0aa42dac4518bbc34aea427d091eb88/volumes/kubernetes.io~empty-dir/memory cannot be unmounted: a process uses a file of it, or something is mounted below
      5s web: write cpu.weight 1 to the pod's cgroup: it is removed after the pod's volumes
      6s web: failed to remove volume memory: its manifest is gone: /root/pods/d0aa42dac4518bbc34aea427d091eb88/volumes/kubernetes.io~empty-dir/memory cannot be unmounted: a process uses a file of it, or something is mounted below
      8s web: failed to remove volume memory: its manifest is gone: /root/pods/d0aa42dac4518bbc34aea427d091eb88/volumes/kubernetes.io~empty-dir/memory cannot be unmounted: a process uses a file of it, or something is mounted below
      12s web: failed to remove volume memory: its manifest is gone: /root/pods/d0aa42dac4518bbc34aea427d091eb88/volumes/kubernetes.io~empty-dir/memory cannot be unmounted: a process uses a file of it, or something is mounted below
      20s web: failed to remove volume memory: its manifest is gone: /root/pods/d0aa42dac4518bbc34aea427d091eb88/volumes/kubernetes.io~empty-dir/memory cannot be unmounted: a process uses a file of it, or something is mounted below
      35s web: remove volume memory: its manifest is gone
      35s web: remove the pod's cgroup: its manifest is gone"
    `);
  },
);

scenario(
  "the pods of a kubelet keep their cgroups, which are found by their names, and no container restarts",
  {
    options,
    async run(harness) {
      const [fixed, web] = [podWith("fixed", guaranteed), podWith("web", burstable)];
      await harness.setManifests(fixed, web);
      await harness.advance("5s");
      harness.kill();
      // A kubelet leaves the same cgroups and directories, and nothing of ours.
      await harness.disk.at("/root").remove("berth");
      harness.cgroups.change(cgroupOf(web, "Burstable"), { pidsMax: 100 });
      harness.cgroups.add(podCgroupName("11111111-2222-3333-4444-555555555555", "Guaranteed"));
      const before = harness.cgroups.names.filter((name) => name.includes("/pod"));
      await harness.start();
      await harness.advance("10s");
      expect(harness.cgroups.names.filter((name) => name.includes("/pod"))).toEqual(
        before.filter((name) => !name.includes("pod11111111-")),
      );
    },
  },
  (log) => {
    expect(filterLines(log, /^([5-9]|1\d)s/)).toMatchInlineSnapshot(`
      "5s following the container runtime
      5s remove the pod's cgroup: no source asks for this pod
      5s web: write pids.max max to the pod's cgroup: it has other limits"
    `);
  },
);

scenario(
  "with the systemd driver pods run in slices, and those of an orphan and of a removed pod go",
  {
    options: { ...options, cgroupDriver: "systemd" },
    async run(harness) {
      const [fixed, web] = [podWith("fixed", guaranteed), podWith("web", burstable)];
      await harness.setManifests(fixed, web);
      await harness.advance("5s");
      harness.appendLog(parentsOf(harness).map((parent) => `sandbox in ${parent}`));
      harness.kill();
      harness.cgroups.add(podCgroupName("11111111-2222-3333-4444-555555555555", "BestEffort"));
      await harness.start();
      await harness.advance("5s");
      await harness.setManifests(fixed);
      await harness.advance("60s");
      expect(harness.cgroups.names.filter((name) => name.includes("/pod"))).toEqual([
        cgroupOf(fixed, "Guaranteed").join("/"),
      ]);
    },
  },
  (log) => {
    expect(filterLines(log, /pod's cgroup|sandbox/)).toMatchInlineSnapshot(`
      "0s fixed: create the pod's cgroup
      0s web: create the pod's cgroup
      0s fixed: run sandbox (attempt 0): the pod has none
      0s web: run sandbox (attempt 0): the pod has none
      5s sandbox in kubepods-podUID.slice
      5s sandbox in kubepods-burstable-podUID.slice
      5s remove the pod's cgroup: no source asks for this pod
      10s web: stop sandbox: its manifest is gone
      10s web: remove sandbox: its manifest is gone
      10s web: remove the pod's cgroup: its manifest is gone"
    `);
  },
);

test("the start of a pod costs at most twelve writes to cgroups, and an idle node none", async () => {
  const harness = await createHarness(options);
  await harness.start();
  await harness.advance("5s");
  const { cgroups } = harness;
  const before = cgroups.writes;
  await harness.setManifests(podWith("web", { ...burstable, limits: { cpu: "1", memory: "128Mi" } }));
  await harness.advance("10s");
  expect(cgroups.limitsOf(["kubepods", "burstable"])).toMatchObject({ cpuWeight: 10 });
  expect(cgroups.writes - before).toBeWithin(1, 13);
  const started = cgroups.writes;
  await harness.advance("3600s");
  expect(cgroups.writes).toBe(started);
});
