import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseNetworkConf } from "../../cni/conf.ts";
import { loadFirstNetwork, loadNetwork } from "../../cni/conf-dir.ts";
import { askAgent } from "../../cni/delegate/ask-agent.ts";
import { findConfDirs, formatBuiltinList } from "../../cni/delegate/builtin-list.ts";
import type { DelegateCall } from "../../cni/delegate/delegate-call.ts";
import { formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import { type CniError, describeCniError } from "../../cni/error.ts";
import { createExecutor } from "../../cni/executor.ts";
import { CriError } from "../../cri/error.ts";
import { aborted } from "../../host/async/abort.ts";
import { createEventSource } from "../../host/async/event-source.ts";
import { createClock } from "../../host/clock.ts";
import { createExec, type Exec, ExecError } from "../../host/exec.ts";
import { createFiles, type Files, FilesError } from "../../host/fs/files.ts";
import { createMounts } from "../../host/fs/mounts.ts";
import { statSync } from "../../host/fs/stat-sync.ts";
import { takeLock } from "../../host/lock.ts";
import { createNetlink } from "../../host/netlink/netlink.ts";
import { StatusResponse } from "../../proto/cri/gen/api.ts";
import { pollUntil } from "../../test/bed/poll-until.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import type { Config, NetworkOwner } from "../config/config.ts";
import { createKubeletMetrics } from "../serve/metrics/kubelet-metrics.ts";
import { type NetworkAdapters, type OwnedNetwork, openOwnedNetwork } from "./network-owner.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-owner-"));
  for (const name of ["delegate.d", "root"]) await mkdir(join(folder, name));
});
afterEach(() => rm(folder, { recursive: true }));

const own = () => join(folder, "root/cni.sock");
const listWith = (socket: string) =>
  formatDelegateList({
    ...{ socket, confDir: join(folder, "net.d"), binDirs: [join(folder, "bin")] },
    ...{ cacheDir: join(folder, "cache"), timeoutMs: 1_000 },
  });

async function open(
  owner: NetworkOwner,
  list?: string,
  network: Partial<Config["network"]> = {},
  clusterConfigSource?: Config["clusterConfigSource"],
  changed: Partial<NetworkAdapters> = {},
) {
  const delegateDir = join(folder, "delegate.d");
  if (list !== undefined) await writeFile(join(delegateDir, "10-berth.conflist"), list);
  const adapters: NetworkAdapters = {
    ...{ exec: createExec(), hostFiles: createFiles("/"), root: createFiles(join(folder, "root")) },
    ...{ statSync, mounts: createMounts() },
    runtime: { verboseStatus: async () => StatusResponse.fromPartial({}) },
    ...{ env: {}, clock: createClock(), log: new FakeLog(), metrics: createKubeletMetrics() },
    ...changed,
  };
  const config = {
    network: { source: "chain", owner, delegateDir, podCIDRs: [], ...network } as const,
    ...{ clusterConfigSource, runtimeRequestTimeoutMs: 120_000 },
  };
  return await openOwnedNetwork(config, adapters);
}

/** A standalone node, which traces no starts. */
const served = [undefined, { onPluginCallFinished() {} }] as const;

/** Starts an agent's part of the network, with this list in the delegate's folder. Returns whether it serves the delegate. */
async function serves(owner: NetworkOwner, list?: string): Promise<boolean> {
  const server = await (await open(owner, list))?.serve(...served);
  if (server === undefined) return false;
  expect((await stat(own())).isSocket()).toBe(true);
  await server.stop();
  return true;
}

test("the delegate is served if its list names the socket of this agent, unless the runtime owns the network", async () => {
  const served = [await serves("auto"), await serves("auto", listWith("/other/cni.sock"))];
  for (const owner of ["auto", "agent", "runtime"] as const) served.push(await serves(owner, listWith(own())));
  expect(served).toEqual([false, false, true, true, false]);
});

test("calls of the delegate are measured by verb, those that fail as well", async () => {
  const metrics = createKubeletMetrics();
  const network = await open("agent", listWith(own()), {}, undefined, { metrics });
  const server = await network?.serve(...served);
  const attachment = { containerId: "c1", netns: "/run/netns/c1", ifName: "eth0", args: new Map(), capabilityArgs: {} };
  const call = (verb: DelegateCall["verb"]) =>
    askAgent(own(), { verb, attachment }, AbortSignal.timeout(10_000), createClock());
  expect(await call("DEL")).toEqual({ kind: "answered", output: {} });
  await expect(call("CHECK")).rejects.toThrow("the cache has no result of ADD for c1");
  await expect(call("ADD")).rejects.toThrow(`${folder}/net.d`);
  await server?.stop();
  const { samples } = metrics.kubelet.families().find(({ name }) => name === "berth_cni_call_duration_seconds") ?? {};
  const counts = samples
    ?.filter(({ suffix }) => suffix === "_count")
    .map(({ labels, value }) => [labels["verb"], value]);
  expect(counts).toEqual([
    ["ADD", 1],
    ["CHECK", 1],
    ["DEL", 1],
  ]);
});

test("the agent refuses to start where it cannot serve the delegate, and names the cure", async () => {
  const install = `berth cni install --conf-dir ${folder}/delegate.d --root-dir ${dirname(own())}, then conf_dir = "${folder}/delegate.d" in the runtime's configuration, and restart it and the agent; for a list in another folder set --network-delegate-dir; or set --network-owner=runtime`;
  const rows: readonly (readonly [NetworkOwner, string | undefined, string])[] = [
    ["agent", undefined, `--network-owner=agent: ${folder}/delegate.d has no list with berth-cni: ${install}`],
    [
      "agent",
      listWith("/other/cni.sock"),
      `--network-owner=agent: ${folder}/delegate.d has the socket /other/cni.sock, not ${own()}: ${install}`,
    ],
    [
      "auto",
      "{",
      `cannot read the list of berth-cni: ${folder}/delegate.d/10-berth.conflist is not JSON: Expected '}': ${install}`,
    ],
    [
      "auto",
      listWith("cni.sock"),
      `cannot read the list of berth-cni: the network berth-delegate: socket: found "cni.sock", must be an absolute path; berth cni install writes the list: ${install}`,
    ],
  ];
  for (const [owner, list, message] of rows)
    await expect(serves(owner, list)).rejects.toMatchObject({ name: "StartError", message });
});

test("a broken file that is not the list of berth-cni is ignored, and the log names it", async () => {
  const log = new FakeLog();
  const file = join(folder, "delegate.d/20-other.conf");
  await writeFile(file, "{");
  const warning = {
    level: "warn" as const,
    message: "the agent ignores a broken file beside the list of berth-cni",
    fields: { file, reason: `${file} is not JSON: Expected '}'` },
  };
  expect(await open("auto", undefined, {}, undefined, { log })).toBeUndefined();
  expect(log.lines).toEqual([warning]);
  await expect(open("agent")).rejects.toThrow(
    `--network-owner=agent: ${folder}/delegate.d has no list with berth-cni: berth cni install`,
  );
  // Beside the list it does not matter.
  expect(await open("agent", listWith(own()))).toBeDefined();
});

/** Makes a network of one plugin, with a version that has STATUS and GC. */
async function makeNetwork(): Promise<void> {
  for (const name of ["net.d", "bin"]) await mkdir(join(folder, name));
  const list = JSON.stringify({ cniVersion: "1.1.0", name: "pods", plugins: [{ type: "bridge" }] });
  await writeFile(join(folder, "net.d/10-pods.conflist"), list);
  await writeFile(join(folder, "bin/bridge"), "#!/bin/sh\n", { mode: 0o755 });
}

/** Programs that run until they are killed. */
const hanging: Exec = {
  run: (argv, { timeoutMs }) =>
    Promise.reject(new ExecError(argv, undefined, "", `${argv[0]} did not end within ${timeoutMs} ms`)),
};
/** Programs that the kernel does not end in time. */
const unkillable: Exec = {
  async run(_argv, { signal }) {
    await aborted(signal!);
    throw signal!.reason;
  },
};

test.each<[string, Exec, number | undefined, string]>([
  ["a plugin that hangs is killed before the status is due, and named", hanging, undefined, "bridge: BIN/bridge did not end within 8750 ms"], // biome-ignore format: a table
  [
    "it is killed earlier when less time is left for the status",
    hanging,
    800,
    "bridge: BIN/bridge did not end within 700 ms",
  ],
  ["plugins that cannot be killed are named by their network and its folder", unkillable, 10, "the plugins of the network pods of NET have not answered STATUS within 0.01 s"], // biome-ignore format: a table
])("NetworkReady: %s", async (_name, exec, deadlineMs, problem) => {
  await makeNetwork();
  const network = await open("agent", listWith(own()), {}, undefined, { exec, clock: new FakeClock() });
  const conditions = [{ type: "NetworkReady", status: true, reason: "", message: "" }];
  const read = network?.withCondition(async () => StatusResponse.fromPartial({ status: { conditions } }));
  const status = await read?.(deadlineMs === undefined ? undefined : { deadlineMs });
  const words = problem.replace("BIN", join(folder, "bin")).replace("NET", join(folder, "net.d"));
  expect(status?.status?.conditions[0]?.message).toBe(`Network plugin returns error: ${words}`);
});

test("NetworkReady: a folder that cannot be read is named once, as the one of several that decides", async () => {
  const problem = `${folder}/net.d cannot be listed: input/output error`;
  const list = async (path: string) => {
    if (path === join(folder, "net.d")) throw new FilesError("EIO", path, problem);
    return await createFiles("/").list(path);
  };
  const hostFiles: Files = { ...createFiles("/"), list };
  const network = await open("agent", listWith(own()), { source: "auto" }, undefined, { hostFiles });
  expect(await networkReady(network)).toBe(`NetworkPluginNotReady: Network plugin returns error: ${problem}`);
});

/** Runs an audit of the network until it logs a failure after this time. Returns its reason. */
async function auditReason(exec: Exec, failsAfterMs: number): Promise<unknown> {
  const [clock, log, networkAuditDue] = [new FakeClock(), new FakeLog(), createEventSource()];
  const network = await open("agent", listWith(own()), {}, undefined, { exec, clock, log });
  const audit = network?.audit({ runtime: { listPodSandbox: async () => [] }, agent: { networkAuditDue } });
  const failure = () => log.lines.find(({ level }) => level === "warn");
  networkAuditDue.emit();
  // Beside the timeout of the audit.
  await pollUntil("the wait for a lock, or the failure", 5_000, async () => clock.pendingTimers > 1 || failure());
  if (failsAfterMs > 0) {
    await clock.advance(failsAfterMs - 1);
    expect(failure()).toBeUndefined();
    await clock.advance(1);
  }
  const { fields } = await pollUntil("the failure", 5_000, async () => failure());
  await audit?.stop();
  return fields["reason"];
}

test("an audit names the plugin whose GC hangs", async () => {
  await makeNetwork();
  expect(await auditReason(hanging, 0)).toBe(`bridge: ${folder}/bin/bridge did not end within 52500 ms`);
});

test("an audit that waits for a lock names its holder", async () => {
  await makeNetwork();
  await mkdir(join(folder, "cache/locks"), { recursive: true });
  const lock = takeLock(join(folder, "cache/locks/.pods"), "a test");
  expect(await auditReason(hanging, 35_000)).toMatch(
    new RegExp(
      `^pid ${process.pid} \\(.+\\) has locked the network pods since .+, longer than this call may wait \\(code 11\\)$`,
    ),
  );
  if (lock.held) lock.release();
});

test("NetworkReady is the condition of the network that the agent executes", async () => {
  const network = await open("agent", listWith(own()));
  const ready = { type: "NetworkReady", status: true, reason: "", message: "" };
  const read = async () => {
    const status = network?.withCondition(async () => StatusResponse.fromPartial({ status: { conditions: [ready] } }));
    return (await status?.())?.status?.conditions;
  };
  const notReady = (problem: string) => [
    { ...ready, status: false, reason: "NetworkPluginNotReady", message: `Network plugin returns error: ${problem}` },
  ];
  const none = "has no network configuration: it must hold a file that ends with .conflist, .conf or .json (code 7)";
  expect(await read()).toEqual(notReady(`${folder}/net.d ${none}`));
  await mkdir(join(folder, "net.d"));
  const list = JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "bridge" }] });
  await writeFile(join(folder, "net.d/10-pods.conflist"), list);
  expect(await read()).toEqual(notReady(`bridge: its binary is in none of the folders ${folder}/bin (code 50)`));
  await mkdir(join(folder, "bin"));
  await writeFile(join(folder, "bin/bridge"), "#!/bin/sh\n", { mode: 0o755 });
  expect(await read()).toEqual([ready]);
});

/** Files whose asynchronous calls are counted, each of which wakes threads of the pool. */
function countCalls(real: Files) {
  const calls: string[] = [];
  const files = new Proxy(real, {
    get(target, name: keyof Files) {
      if (name !== "root" && name !== "path") calls.push(name);
      return target[name];
    },
  });
  return { calls, files };
}

test("while nothing changes, NetworkReady of a network that is ready costs no asynchronous call on files", async () => {
  await makeNetwork();
  const { calls, files } = countCalls(createFiles("/"));
  const exec: Exec = { run: async () => ({ stdout: "", stderr: "" }) };
  const network = await open("agent", listWith(own()), {}, undefined, { exec, hostFiles: files });
  const conditions = [{ type: "NetworkReady", status: true, reason: "", message: "" }];
  const read = network?.withCondition(async () => StatusResponse.fromPartial({ status: { conditions } }));
  const readiness = async () => {
    calls.length = 0;
    const message = (await read?.())?.status?.conditions[0]?.message;
    return { message, callsFiles: calls.length > 0 };
  };
  expect(await readiness()).toEqual({ message: "", callsFiles: true });
  expect(await readiness()).toEqual({ message: "", callsFiles: false });
  await rm(join(folder, "bin/bridge"));
  const message = expect.stringContaining("bridge: its binary is in none of the folders");
  for (let time = 0; time < 2; time++) expect(await readiness()).toEqual({ message, callsFiles: true });
});

/** A runtime that reads its networks from this folder. */
const readsFrom = (confDir: string) => {
  const runtime = {
    confDir,
    calls: 0,
    async verboseStatus() {
      runtime.calls += 1;
      const cni = { confDir: runtime.confDir, binDirs: ["/opt/cni/bin"] };
      return StatusResponse.fromPartial({ info: { config: JSON.stringify({ cni }) } });
    },
  };
  return runtime;
};

/** The condition NetworkReady of an agent's network, by what the runtime itself says. */
async function networkReady(network: OwnedNetwork | undefined, own = { status: true, reason: "", message: "" }) {
  const conditions = [{ type: "NetworkReady", ...own }];
  const read = network?.withCondition(async () => StatusResponse.fromPartial({ status: { conditions } }));
  const { status, reason, message } = (await read?.())?.status?.conditions[0] ?? {};
  return status === true ? "ready" : `${reason}: ${message}`;
}

describe("the check of the runtime's folder", () => {
  const unused = () =>
    `the container runtime reads its networks from ${folder}/net.d, but the list of berth-cni is in ${folder}/delegate.d: set conf_dir = "${folder}/delegate.d" in its configuration and restart it`;
  const openWith = (runtime: NetworkAdapters["runtime"], changed: Partial<NetworkAdapters> = {}) =>
    open("agent", listWith(own()), {}, undefined, { runtime, ...changed });

  test("NetworkReady is false, after the runtime's own message, until the runtime reads the delegate's folder", async () => {
    await makeNetwork();
    const [runtime, log] = [readsFrom(join(folder, "net.d")), new FakeLog()];
    const network = await openWith(runtime, { log });
    expect(await networkReady(network)).toBe(`NetworkPluginNotReady: ${unused()}`);
    expect(log.lines.map(({ level, fields }) => [level, fields["reason"]])).toEqual([["warn", unused()]]);
    const notReady = { status: false, reason: "NoNetwork", message: "cni plugin not initialized" };
    expect(await networkReady(network, notReady)).toBe(`NoNetwork: cni plugin not initialized: ${unused()}`);
    runtime.confDir = join(folder, "delegate.d");
    expect(await networkReady(network)).toBe("ready");
  });

  test("the check runs again after an outage, and makes no call in between", async () => {
    await makeNetwork();
    const runtime = readsFrom(join(folder, "delegate.d"));
    const network = await openWith(runtime);
    expect([await networkReady(network), await networkReady(network), runtime.calls]).toEqual(["ready", "ready", 1]);
    runtime.confDir = join(folder, "net.d");
    network?.onRuntimeBack();
    expect(await networkReady(network)).toBe(`NetworkPluginNotReady: ${unused()}`);
  });

  test("the check runs again when a file is put into the folder, and names one that comes first", async () => {
    await makeNetwork();
    const runtime = readsFrom(join(folder, "delegate.d"));
    const network = await openWith(runtime);
    expect(await networkReady(network)).toBe("ready");
    const first = join(folder, "delegate.d/05-other.conflist");
    await writeFile(first, JSON.stringify({ cniVersion: "1.0.0", name: "other", plugins: [{ type: "bridge" }] }));
    expect(await networkReady(network)).toBe(
      `NetworkPluginNotReady: the container runtime uses ${first}, which comes before the list of berth-cni: remove that file`,
    );
    await rm(first);
    expect([await networkReady(network), await networkReady(network), runtime.calls]).toEqual(["ready", "ready", 3]);
  });

  test("a check that began before an outage does not count after it", async () => {
    await makeNetwork();
    const runtime = readsFrom(join(folder, "delegate.d"));
    const network = await openWith({
      async verboseStatus() {
        const answer = await runtime.verboseStatus();
        if (runtime.calls === 1) network?.onRuntimeBack();
        runtime.confDir = join(folder, "net.d");
        return answer;
      },
    });
    expect([await networkReady(network), await networkReady(network)]).toEqual([
      "ready",
      `NetworkPluginNotReady: ${unused()}`,
    ]);
  });

  test("the status is unchanged if the runtime does not report its folder, or does not answer", async () => {
    await makeNetwork();
    const silent = { verboseStatus: async () => StatusResponse.fromPartial({ info: { config: "{}" } }) };
    const away = { verboseStatus: () => Promise.reject(new CriError("UNAVAILABLE", "Status", "it is away")) };
    for (const runtime of [silent, away]) expect(await networkReady(await openWith(runtime))).toBe("ready");
  });

  test("the agent runs no GC, logs why, and audits with the next list once the folder is right", async () => {
    await makeNetwork();
    const [clock, log, networkAuditDue] = [new FakeClock(), new FakeLog(), createEventSource()];
    const runtime = readsFrom(join(folder, "net.d"));
    const called: string[] = [];
    const exec: Exec = {
      async run([program], { env }) {
        called.push(`${program} ${env?.["CNI_COMMAND"]}`);
        return { stdout: "", stderr: "" };
      },
    };
    const network = await openWith(runtime, { exec, clock, log });
    const audit = network?.audit({ runtime: { listPodSandbox: async () => [] }, agent: { networkAuditDue } });
    networkAuditDue.emit();
    const warning = () => log.lines.find(({ level }) => level === "warn");
    const { fields } = await pollUntil("the warning", 5_000, async () => warning());
    expect([fields["reason"], called]).toEqual([unused(), []]);
    runtime.confDir = join(folder, "delegate.d");
    networkAuditDue.emit();
    await pollUntil("GC", 5_000, async () => called.length > 0);
    expect(called).toEqual([`${folder}/bin/bridge GC`]);
    await audit?.stop();
  });
});

describe("--network=builtin", () => {
  const builtin = { source: "builtin" } as const;
  const inCluster = { kind: "kubeconfig", path: "/k" } as const;
  const listed = async () =>
    (await loadNetwork(createFiles("/"), join(folder, "root/network.d"))).plugins.map(({ fields }) => fields["ranges"]);
  const conditionOf = async (network: OwnedNetwork | undefined) => {
    const ready = { type: "NetworkReady", status: true, reason: "", message: "" };
    const status = network?.withCondition(async () => StatusResponse.fromPartial({ status: { conditions: [ready] } }));
    return (await status?.())?.status?.conditions[0]?.message;
  };

  test("a standalone node has the ranges of podCIDR", async () => {
    await open("auto", listWith(own()), { ...builtin, podCIDRs: ["10.7.3.0/24", "fd00:7:3::/64"] });
    expect(await listed()).toEqual([[[{ subnet: "10.7.3.0/24" }], [{ subnet: "fd00:7:3::/64" }]]]);
  });

  test("a standalone node without podCIDR has a range of its own, and the delegate without the agent executes the same list", async () => {
    await open("auto", listWith(own()), builtin);
    expect(await listed()).toEqual([[[{ subnet: "10.241.0.0/24" }]]]);
    const conf = { socket: own(), confDir: "/etc/cni/net.d" };
    expect(await findConfDirs(createFiles("/"), conf)).toEqual([join(folder, "root/network.d")]);
    await open("auto");
    expect(await findConfDirs(createFiles("/"), conf)).toEqual(["/etc/cni/net.d"]);
  });

  test("a node of a cluster waits for its pod CIDRs, and has them at once after a restart", async () => {
    const network = await open("agent", listWith(own()), builtin, inCluster);
    expect(await conditionOf(network)).toContain("the Node object has no pod CIDR yet");
    network?.setPodCIDRs([]);
    network?.setPodCIDRs(["10.7.3.0/24", "fd00:7:3::/64"]);
    await (await network?.serve(...served))?.stop();
    expect(await listed()).toEqual([[[{ subnet: "10.7.3.0/24" }], [{ subnet: "fd00:7:3::/64" }]]]);
    expect(await conditionOf(await open("agent", undefined, builtin, inCluster))).not.toContain("pod CIDR");
  });

  test("without the delegate, or with the runtime as the owner, the agent does not start", async () => {
    await expect(open("auto", undefined, builtin)).rejects.toMatchObject({
      message: expect.stringMatching(
        /^--network=builtin: .*delegate\.d has no list with berth-cni: berth cni install .*, then conf_dir = ".*delegate\.d" in the runtime's configuration, and restart it and the agent; for a list in another folder set --network-delegate-dir; or leave out --network=builtin$/,
      ),
    });
    await expect(open("runtime", listWith(own()), builtin)).rejects.toMatchObject({
      message: expect.stringContaining("set --network-owner=agent"),
    });
  });
});

describe("--network=auto", () => {
  const auto = { source: "auto" } as const;
  const inCluster = { kind: "kubeconfig", path: "/k" } as const;
  const chain = () => join(folder, "net.d/10-pods.conflist");
  const none = "has no network configuration: it must hold a file that ends with .conflist, .conf or .json (code 7)";
  /** What the built-in network itself answers: its STATUS fails for another user than root, and where another agent of this machine has it. */
  let ofBuiltin: string;
  beforeEach(async () => {
    const executor = createExecutor({
      ...{ exec: createExec(), files: createFiles("/"), cacheFiles: createFiles(join(folder, "cache")) },
      ...{ netlink: createNetlink(), clock: createClock(), binDirs: [], env: {}, description: "a test" },
      onUnreadable() {},
    });
    const conf = parseNetworkConf(formatBuiltinList(["10.241.0.0/24"]), "the built-in list");
    ofBuiltin = await executor
      .createCni(() => {})
      .status(conf, AbortSignal.timeout(5_000))
      .then(
        () => "ready",
        (error: CniError) => `NetworkPluginNotReady: Network plugin returns error: ${describeCniError(error)}`,
      );
  });
  /** Which network the delegate executes without the agent. */
  const ofDelegate = async () => {
    const confDirs = await findConfDirs(createFiles("/"), { socket: own(), confDir: join(folder, "net.d") });
    return await loadFirstNetwork(createFiles("/"), confDirs).then(
      ({ conf }) => conf.name,
      () => undefined,
    );
  };

  test("a standalone node without a list has the built-in network, and a list that appears serves instead, until it goes again", async () => {
    await makeNetwork();
    await rename(chain(), join(folder, "aside"));
    const network = await open("auto", listWith(own()), auto);
    const states = async () => [await networkReady(network), await ofDelegate()];
    expect(await states()).toEqual([ofBuiltin, "berth"]);
    await writeFile(chain(), "{");
    expect(await states()).toEqual([
      `NetworkPluginNotReady: Network plugin returns error: ${chain()} is not JSON: Expected '}' (code 6)`,
      undefined,
    ]);
    await rename(join(folder, "aside"), chain());
    expect(await states()).toEqual(["ready", "pods"]);
    await rm(join(folder, "net.d"), { recursive: true });
    expect(await states()).toEqual([ofBuiltin, "berth"]);
  });

  test("a list that appears is noticed without a plugin's call, and is asked for its STATUS", async () => {
    await makeNetwork();
    await rename(chain(), join(folder, "aside"));
    const asked: string[] = [];
    const exec: Exec = {
      async run([program], { env }) {
        asked.push(`${program} ${env?.["CNI_COMMAND"]}`);
        return { stdout: "", stderr: "" };
      },
    };
    const network = await open("auto", listWith(own()), auto, undefined, { exec });
    for (let time = 0; time < 2; time++) expect(await networkReady(network)).toBe(ofBuiltin);
    await rename(join(folder, "aside"), chain());
    for (let time = 0; time < 2; time++) expect(await networkReady(network)).toBe("ready");
    expect(asked).toEqual([`${folder}/bin/bridge STATUS`]);
  });

  describe("on a full disk", () => {
    const full = "has no space left";
    /** Files with a disk that keeps its folder of lists from being made, or a list from being written. */
    function fillDisk(call: "makeFolder" | "write") {
      const disk = { isFull: true, tries: 0 };
      const real = createFiles("/");
      const refuse = async (path: string, work: () => Promise<void>) => {
        if (!path.startsWith(join(folder, "root/network"))) return await work();
        disk.tries += 1;
        if (disk.isFull) throw new FilesError("ENOSPC", path, `${path} ${full}`);
        await work();
      };
      const files: Files = {
        ...real,
        [call]: (path: string, ...rest: readonly never[]) =>
          refuse(path, () => (real[call] as (...args: readonly unknown[]) => Promise<void>)(path, ...rest)),
      };
      return { disk, files };
    }

    test.each(["makeFolder", "write"] as const)(
      "a standalone node has the network of its list; without one it is not ready, and says why, until there is space (%s)",
      async (call) => {
        await makeNetwork();
        const { disk, files } = fillDisk(call);
        const log = new FakeLog();
        const network = await open("auto", listWith(own()), auto, undefined, { hostFiles: files, log });
        expect(log.lines.map(({ level, fields }) => [level, fields["path"]])).toEqual([
          ["error", join(folder, "root/network-fallback.d/10-builtin.conflist")],
        ]);
        for (let time = 0; time < 3; time++) expect(await networkReady(network)).toBe("ready");
        const { tries } = disk;
        expect(await networkReady(network)).toBe("ready");
        expect(disk.tries).toBe(tries);
        await writeFile(chain(), "{");
        expect(await networkReady(network)).toContain("is not JSON");
        await rm(chain());
        for (let time = 0; time < 2; time++)
          expect(await networkReady(network)).toMatch(
            new RegExp(
              `^NetworkPluginNotReady: Network plugin returns error: the list of the built-in network cannot be written: .*${full}$`,
            ),
          );
        expect(log.lines.length).toBe(1);
        disk.isFull = false;
        expect([await networkReady(network), await ofDelegate()]).toEqual([ofBuiltin, "berth"]);
      },
    );

    test("with --network=builtin the agent does not start", async () => {
      const { files } = fillDisk("write");
      await expect(
        open("auto", listWith(own()), { source: "builtin" }, undefined, { hostFiles: files }),
      ).rejects.toMatchObject({ name: "StartError", message: expect.stringContaining(full) });
    });
  });

  test.each<[string, Partial<Config["network"]>, Config["clusterConfigSource"]]>([
    ["in a cluster", auto, inCluster],
    ["with --network=chain", { source: "chain" }, undefined],
  ])(
    "on a node %s without a list neither the agent nor berth-cni without it executes a network, also after a standalone start",
    async (_, source, cluster) => {
      await open("auto", listWith(own()), auto);
      expect(await ofDelegate()).toBe("berth");
      const network = await open("auto", undefined, source, cluster);
      const words = `NetworkPluginNotReady: Network plugin returns error: ${folder}/net.d ${none}`;
      expect([await networkReady(network), await ofDelegate()]).toEqual([words, undefined]);
    },
  );

  test.each<[string, NetworkOwner, string | undefined]>([
    ["the owner is runtime", "runtime", undefined],
    ["the delegate belongs to another agent", "auto", "/other/cni.sock"],
  ])(
    "an agent that does not own the network removes the list of an earlier standalone start: %s",
    async (_, owner, socket) => {
      await open("auto", listWith(own()), auto);
      expect(await ofDelegate()).toBe("berth");
      const ofOther = join(folder, "network-fallback.d");
      await mkdir(ofOther);
      expect(await open(owner, socket && listWith(socket), auto, inCluster)).toBeUndefined();
      expect([await ofDelegate(), (await stat(ofOther)).isDirectory()]).toEqual([undefined, true]);
    },
  );

  test("an agent that does not own the network keeps the list of --network=builtin", async () => {
    await open("auto", listWith(own()), { source: "builtin" });
    await open("runtime", undefined, auto);
    expect(await ofDelegate()).toBe("berth");
  });

  test("a start with another --network removes the list of the one before", async () => {
    const kept = async () => (await readdir(join(folder, "root"))).filter((name) => name.startsWith("network"));
    const found = [];
    for (const source of ["auto", "builtin", "auto", "chain"] as const) {
      await open("auto", listWith(own()), { source });
      found.push(await kept());
    }
    expect(found).toEqual([["network-fallback.d"], ["network.d"], ["network-fallback.d"], []]);
  });

  test("the ranges of podCIDR are those of a standalone node", async () => {
    await open("auto", listWith(own()), { ...auto, podCIDRs: ["10.7.3.0/24"] });
    const { plugins } = await loadNetwork(createFiles("/"), join(folder, "root/network-fallback.d"));
    expect(plugins.map(({ fields }) => fields["ranges"])).toEqual([[[{ subnet: "10.7.3.0/24" }]]]);
  });

  test("the log says which folder has the network that the agent executes", async () => {
    await makeNetwork();
    const log = new FakeLog();
    const serve = async () =>
      await (await (await open("auto", listWith(own()), auto, undefined, { log }))?.serve(...served))?.stop();
    await serve();
    await rm(chain());
    await serve();
    expect(log.lines.map(({ fields }) => fields["confDir"])).toEqual(
      ["net.d", "root/network-fallback.d"].map((name) => join(folder, name)),
    );
  });

  test("the log says once when another network is executed, and not when the same one is away for a while", async () => {
    await makeNetwork();
    const log = new FakeLog();
    const network = await open("auto", listWith(own()), auto, undefined, { log });
    const server = await network?.serve(...served);
    const look = async () => {
      for (let time = 0; time < 2; time++) await networkReady(network);
      return log.lines
        .splice(0)
        .map(({ level, message, fields }) => [level, message, fields["network"], fields["confDir"]]);
    };
    const line = (what: string, name: string, confDir: string) => [
      "info",
      `the agent executes ${what}`,
      name,
      join(folder, confDir),
    ];
    expect(await look()).toEqual([line("the network of pods", "pods", "net.d")]);
    await rename(chain(), join(folder, "aside"));
    expect(await look()).toEqual([line("another network of pods now", "berth", "root/network-fallback.d")]);
    await writeFile(chain(), "{");
    expect(await look()).toEqual([]);
    await rm(chain());
    expect(await look()).toEqual([]);
    await rename(join(folder, "aside"), chain());
    expect(await look()).toEqual([line("another network of pods now", "pods", "net.d")]);
    await writeFile(chain(), JSON.stringify({ cniVersion: "1.0.0", name: "other", plugins: [{ type: "bridge" }] }));
    expect(await look()).toEqual([line("another network of pods now", "other", "net.d")]);
    await server?.stop();
  });

  test("the log says when the first list appears", async () => {
    const log = new FakeLog();
    const network = await open("auto", listWith(own()), { source: "chain" }, undefined, { log });
    const server = await network?.serve(...served);
    await networkReady(network);
    await makeNetwork();
    await networkReady(network);
    expect(log.lines.map(({ message, fields }) => [message, fields["network"]])).toEqual([
      ["the agent serves berth-cni; it finds no network of pods yet", undefined],
      ["the agent executes the network of pods", "pods"],
    ]);
    await server?.stop();
  });

  test("without the delegate the runtime executes the network, and the agent makes no list", async () => {
    expect(await open("auto", undefined, auto)).toBeUndefined();
    expect(await readdir(join(folder, "root"))).toEqual([]);
  });
});
