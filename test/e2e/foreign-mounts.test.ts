import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import type { VolumeListing } from "../../agent/serve/local/volume-list.ts";
import { parseMountinfo } from "../../host/fs/mounts.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { hasDeadFileSystems, mountDeadFileSystem } from "../contract/dead-file-system.ts";
import { podOf, script } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-foreign-"));
  await mkdir(join(folder, "precious"));
  await writeFile(join(folder, "precious", "file"), "content");
  node = await startNode({ version: "2.1" });
}, 600_000);
afterAll(async () => {
  await node?.tearDown();
  await rm(folder, { recursive: true });
});

/** The folders that are mounted at emptyDirs of the node. */
const mounted = async () =>
  parseMountinfo(await readFile("/proc/self/mountinfo", "utf8"))
    .filter(({ mountPoint }) => mountPoint.startsWith(join(node.paths.agentRoot, "pods")))
    .filter(({ mountPoint }) => mountPoint.endsWith("kubernetes.io~empty-dir/data"))
    .map(({ root }) => root);

test("a folder of the node that a sidecar mounts over an emptyDir keeps its files when the pod is removed", async () => {
  const sidecar = {
    name: "mounts",
    image: podOf("web").spec.containers[0]?.image ?? "",
    restartPolicy: "Always",
    securityContext: { privileged: true },
    command: script("mount --bind /host/precious /data && exec sleep 1000000"),
    volumeMounts: [
      { name: "data", mountPath: "/data", mountPropagation: "Bidirectional" },
      { name: "host", mountPath: "/host" },
    ],
  } as const;
  const volumes = [
    { name: "data", emptyDir: {} },
    { name: "host", hostPath: { path: folder } },
  ];
  await node.putManifest(podOf("web", {}, { initContainers: [sidecar], volumes }));
  await node.waitUntilRunning("web");
  await pollUntil("the mount of the sidecar", 20_000, async () =>
    (await mounted()).some((root) => root.endsWith("/precious")),
  );
  await node.removeFile("web.yaml");
  await node.waitUntilEmpty();
  expect(await mounted()).toEqual([]);
  expect(await readFile(join(folder, "precious", "file"), "utf8")).toBe("content");
});

test.skipIf(!hasDeadFileSystems)(
  "a file system that does not answer, mounted over an emptyDir, holds up no end of its pod, and has no figures",
  async () => {
    const volumeMounts = [{ name: "data", mountPath: "/data" }];
    await node.putManifest(podOf("web", { volumeMounts }, { volumes: [{ name: "data", emptyDir: {} }] }));
    const [pod] = await node.waitUntilRunning("web");
    const path = join(node.paths.agentRoot, "pods", pod?.uid ?? "", "volumes/kubernetes.io~empty-dir/data");
    const answer = mountDeadFileSystem(path);
    try {
      const [program, ...args] = node.agent.podsArgv;
      const { stdout } = await execa(program!, [...args, "--volumes", "-o", "json"]);
      const { pods } = JSON.parse(stdout) as VolumeListing;
      const problem = `dead:/data (fuse) is mounted at ${path}: its server may not answer`;
      expect(pods[0]?.volumes).toEqual([{ name: "data", kind: "emptyDir", problem }]);
      await node.removeFile("web.yaml");
      await node.waitUntilEmpty();
      expect(await mounted()).toEqual([]);
    } finally {
      answer();
    }
  },
);
