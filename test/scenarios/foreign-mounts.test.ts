// What privileged containers have mounted over a volume of their pod (mountPropagation: Bidirectional), and leave there.
import { expect } from "bun:test";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { apiScenario } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const spec: Partial<PodSpec> = {
  containers: [
    {
      name: "a",
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent",
      securityContext: { privileged: true },
      volumeMounts: [{ name: "data", mountPath: "/data", mountPropagation: "Bidirectional" }],
    },
  ],
  volumes: [{ name: "data", emptyDir: {} }],
};

const volumePath = ({ disk }: AgentHarness) =>
  disk.paths().find((path) => path.endsWith("/volumes/kubernetes.io~empty-dir/data")) ?? "no volume";
const leftovers = ({ disk, mounts }: AgentHarness): readonly string[] => [
  ...disk.paths().filter((path) => path.startsWith("/root/pods/")),
  ...mounts.mountPoints,
];

apiScenario(
  "a folder of the node that a container has mounted over its emptyDir keeps its files when the pod is deleted",
  async (harness) => {
    const machine = harness.disk.at("/");
    await machine.makeFolder("srv/precious", 0o755);
    await machine.makeFile("srv/precious/file", 0o600, "content");
    await harness.apply("web", spec);
    await harness.advance("5s");
    await harness.mounts.bind("/srv/precious", volumePath(harness), { isReadOnly: false, isRecursive: false });
    await harness.deletePod("web");
    await harness.advance("40s");
  },
  async (end, harness) => {
    expect(end.api).toEqual([]);
    expect(leftovers(harness)).toEqual([]);
    expect(await harness.disk.at("/").read("srv/precious/file", 100)).toBe("content");
  },
);

for (const medium of ["", "Memory"] as const)
  apiScenario(
    `a server that does not answer, mounted over an emptyDir of medium "${medium}", holds up no end of its pod`,
    async (harness) => {
      await harness.apply("web", { ...spec, volumes: [{ name: "data", emptyDir: { medium } }] });
      await harness.advance("5s");
      const nas = { fsType: "fuse.sshfs", source: "nas:/data", options: [] };
      harness.mounts.mountNetwork(volumePath(harness), nas);
      harness.mounts.deadServers.add("nas");
      await harness.deletePod("web");
      await harness.advance("40s");
    },
    async (end, harness) => {
      expect(end.api).toEqual([]);
      expect(leftovers(harness)).toEqual([]);
    },
    { stride: 3 },
  );
