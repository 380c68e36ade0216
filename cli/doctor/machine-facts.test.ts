import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { loadConfig } from "../../agent/config/load.ts";
import { createFiles } from "../../host/fs/files.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { machineReaders } from "./machine-facts.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-machine-"));
});
afterEach(() => rm(root, { recursive: true }));

async function put(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(root, path)), { recursive: true });
  await writeFile(join(root, path), text);
}

/** The readers of a machine whose root directory is the test's folder. */
async function readers(...argv: readonly string[]) {
  const files = createFiles(root);
  const loaded = await loadConfig({ argv: [...argv], files, workingDirectory: "/", hostname: "node" });
  if (loaded.kind !== "config") throw new Error("no configuration");
  const { config, kubelet } = loaded;
  const edges = {
    files,
    clock: new FakeClock(),
    log: new FakeLog(),
    requestTimeoutMs: 1_000,
    berth: ["/bin/false"] as const,
  };
  return machineReaders({ config, kubelet, configPath: undefined, ...edges });
}

test("the kernel's files are read", async () => {
  await put(
    "proc/swaps",
    "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 1 0 100\n/swap\\040a file 1 0 -2\n",
  );
  await put("proc/filesystems", "nodev\tproc\n\text4\nnodev\toverlay\n");
  await put("proc/sys/vm/overcommit_memory", "1\n");
  await put("proc/sys/net/ipv4/conf/all/route_localnet", "0\n");
  const read = await readers();
  expect(await read.swapDevices()).toEqual(["/dev/zram0", "/swap\\040a"]);
  expect(await read.fileSystemTypes()).toEqual(["proc", "ext4", "overlay"]);
  expect(await read.sysctls()).toMatchObject({
    "vm.overcommit_memory": 1,
    "net.ipv4.conf.all.route_localnet": 0,
    "net.bridge.bridge-nf-call-iptables": undefined,
  });
});

test("the cgroup controllers are those of version 2, or the enabled ones of version 1", async () => {
  const table = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t5\t1\nmemory\t0\t1\t0\n";
  await put("proc/cgroups", table);
  expect(await (await readers()).cgroupControllers()).toEqual(["cpu"]);
  await put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n");
  expect(await (await readers()).cgroupControllers()).toEqual(["cpuset", "cpu", "memory"]);
});

test("the limit of processes is the smaller one, and configured cgroups are looked for", async () => {
  await put("proc/loadavg", "0.10 0.20 0.30 1/200 4711\n");
  await put("proc/sys/kernel/pid_max", "4194304\n");
  await put("proc/sys/kernel/threads-max", "30000\n");
  const read = await readers("--cgroup-root=/pods");
  expect(await read.maxTasks()).toBe(30_000);
  expect(await read.configuredCgroupProblems()).toMatchObject([{ what: 'cgroupRoot "/pods" does not exist' }]);
  await put("sys/fs/cgroup/pods.slice/cgroup.controllers", "cpu\n");
  expect(await read.configuredCgroupProblems()).toEqual([]);
});

test("a folder that does not exist yet has the space of the nearest one that does", async () => {
  const read = await readers("--root-dir=/not/there/yet");
  expect(await read.rootSpace()).toMatchObject({ path: "/not/there/yet", totalBytes: expect.any(Number) });
  expect(await read.rootDir()).toBeUndefined();
  expect(await read.isRootReadOnly()).toBe(false);
  expect(await read.agent()).toBeUndefined();
});

test("nameservers and manifests are those of the configuration", async () => {
  await put("run/resolv.conf", "# nameserver 192.0.2.1\nsearch a\nnameserver 192.0.2.53\n nameserver ::1\n");
  await mkdir(join(root, "manifests"));
  const read = await readers("--resolv-conf=/run/resolv.conf", "--pod-manifest-path=/manifests");
  expect(await read.nameservers()).toEqual(["192.0.2.53", "::1"]);
  expect(await read.manifests()).toBe("directory");
});

test("the mount and the owner of the root directory are those of the nearest existing folder", async () => {
  await put(
    "proc/self/mountinfo",
    `1 0 0:1 / / rw - tmpfs tmpfs rw\n2 1 0:2 / ${await realpath(root)} rw shared:1 - tmpfs tmpfs rw\n`,
  );
  const read = await readers("--root-dir=/not/there/yet");
  expect(await read.rootMount()).toEqual({ mountPoint: await realpath(root), isShared: true });
  expect(await read.rootDirOwner()).toBeUndefined();
});

test("a node without a kubeconfig asks no API server", async () => {
  const read = await readers();
  expect([await read.kubeconfig(), await read.kubeconfigOwner(), await read.apiServer()]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

/** Serves the agent's socket below the root directory `/agent`. */
async function serveAgent(respond: (socket: Socket) => void): Promise<Server> {
  await mkdir(join(root, "agent"));
  const server = createServer((socket) => socket.once("data", () => respond(socket)));
  await new Promise<void>((resolve) => server.listen(join(root, "agent/berth.sock"), resolve));
  return server;
}

test("no agent runs where the socket refuses the connection", async () => {
  // The kernel refuses connections to a file as to the socket of an agent that was killed.
  await put("agent/berth.sock", "");
  const read = await readers("--root-dir=/agent");
  expect(await read.agent()).toBeUndefined();
});

test("an agent that does not respond is not taken for none: the fact is unreadable", async () => {
  const server = await serveAgent((socket) => socket.destroy());
  const read = await readers("--root-dir=/agent");
  await expect(read.agent()).rejects.toThrow("the connection was closed");
  server.close();
});

test("an agent that responds with an error is not taken for none, either", async () => {
  const server = await serveAgent((socket) => socket.end("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"));
  const read = await readers("--root-dir=/agent");
  await expect(read.agent()).rejects.toThrow("the agent responded with HTTP 500");
  server.close();
});

test("missing files of the kernel reject, for a finding that says so", async () => {
  await expect((await readers()).swapDevices()).rejects.toThrow("ENOENT");
});
