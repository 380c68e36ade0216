import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSystemd } from "../../cgroups/systemd/systemd.ts";
import { createClock } from "../../host/clock.ts";
import { imitateCgroupV2 } from "../fakes/cgroup-v2.ts";
import { FakeSystemd, listenAsSystemd } from "../fakes/systemd.ts";
import { cgroupsContract } from "./cgroups.ts";
import { kernelCgroupsFixture } from "./cgroups-kernel.ts";

const pageBytes = 4096;
const hugePageSizes = [2 ** 21, 2 ** 30];

async function makeFolder(): Promise<string> {
  return await realpath(await mkdtemp(join(tmpdir(), "berth-cgroups-")));
}

function processesOf(tree: ReturnType<typeof imitateCgroupV2>) {
  let pid = 1_000_000;
  return (folder: string) => {
    pid += 1;
    const own = pid;
    tree.addProcess(folder, own);
    return { isRunning: () => (tree.files.read(`${folder}/cgroup.procs`) ?? "").split("\n").includes(String(own)) };
  };
}

for (const [title, options, sizes] of [
  ["a folder, with cgroupfs", {}, hugePageSizes],
  ["a folder of a kernel without cgroup.kill, with cgroupfs", { hasKill: false }, hugePageSizes],
  ["a folder of a kernel without huge pages, with cgroupfs", { controllers: ["cpuset", "cpu", "memory", "pids"] }, []],
] as const)
  cgroupsContract(title, async () => {
    const root = await makeFolder();
    const tree = imitateCgroupV2(root, options);
    return kernelCgroupsFixture({
      root,
      files: tree.files,
      systemd: undefined,
      pageBytes,
      hugePageSizes: sizes,
      startProcess: processesOf(tree),
      end: () => rm(root, { recursive: true }),
    });
  });

for (const isSignalFirst of [false, true])
  cgroupsContract(
    `a folder, with systemd, whose signals come ${isSignalFirst ? "before" : "after"} its replies`,
    async () => {
      const folder = await makeFolder();
      const root = await makeFolder();
      const tree = imitateCgroupV2(root);
      const manager = new FakeSystemd(root, tree.files);
      manager.isSignalFirst = isSignalFirst;
      const socketPath = join(folder, "private");
      const socket = await listenAsSystemd(socketPath, manager);
      const systemd = createSystemd({
        addresses: [{ socketPath, isBus: false }],
        uid: process.getuid?.() ?? 0,
        clock: createClock(),
        timeoutMs: 10_000,
        idleMs: 10,
      });
      return kernelCgroupsFixture({
        root,
        files: tree.files,
        systemd,
        pageBytes,
        hugePageSizes,
        startProcess: processesOf(tree),
        async end() {
          await socket.close();
          for (const each of [root, folder]) await rm(each, { recursive: true });
        },
      });
    },
  );
