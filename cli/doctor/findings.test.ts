import { describe, expect, test } from "bun:test";
import { splitCommandLine } from "../../agent/config/flags/command-line.ts";
import { flagGroups } from "../../agent/config/flags/flag-table.ts";
import { loadConfig } from "../../agent/config/load.ts";
import { checkCgroups } from "../../agent/preflight/cgroup-version.ts";
import type { CniFacts } from "../../cni/network-facts.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { type Check, type CheckedSettings, checks, type Finding } from "./finding.ts";
import { findingsOf } from "./findings.ts";
import type { ForwardChain } from "./forwarding.ts";
import { parseRules } from "./iptables-rules.ts";
import type { Facts, MachineFacts } from "./machine-facts.ts";
import type { PodNetworkFacts } from "./pod-network-facts.ts";
import type { RuntimeFacts } from "./runtime-facts.ts";

const gibibyte = 2 ** 30;
const now = Date.parse("2026-11-22T12:00:00Z");
const space = {
  totalBytes: 32 * gibibyte,
  freeBytes: 20 * gibibyte,
  usedBytes: 12 * gibibyte,
  totalInodes: 2_000_000,
  freeInodes: 1_900_000,
};

const containerd: RuntimeFacts = {
  name: "containerd",
  version: "2.1.4",
  conditions: [
    { type: "RuntimeReady", status: true, reason: "", message: "" },
    { type: "NetworkReady", status: true, reason: "", message: "" },
  ],
  cgroupDriver: { name: "systemd", isReported: true },
  cni: { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"] },
  loopback: { by: "plugin", isOptional: true },
  imageFolder: "/var/lib/containerd",
};

const cniFolders = { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"] };

/** A Raspberry Pi on which everything is as it should be. */
const good: Facts = {
  inventory: { board: "Raspberry Pi 4 Model B", temperatureCelsius: 48, disks: [] },
  machine: {
    cpuCount: 4,
    onlineCpus: "0-3",
    memoryBytes: 4 * gibibyte,
    swapBytes: 0,
    swapAreas: [],
    hugePages: [],
    machineID: "",
    systemUUID: "",
    bootID: "",
    kernelVersion: "6.12.25",
    osImage: "Debian GNU/Linux 12 (bookworm)",
    architecture: "arm64",
    hasCgroupV2: true,
    limitsSwap: true,
    hasAppArmor: false,
    hasSELinux: false,
  },
  isRoot: true,
  nowMs: now,
  isClockSynchronized: true,
  cgroupControllers: ["cpuset", "cpu", "io", "memory", "pids"],
  configuredCgroupProblems: [],
  maxTasks: 32_768,
  memory: { capacity: 4 * gibibyte, available: 3 * gibibyte },
  swapDevices: [],
  fileSystemTypes: ["ext4", "overlay"],
  sysctls: {
    "vm.overcommit_memory": 1,
    "vm.panic_on_oom": 0,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "kernel.keys.root_maxkeys": 1_000_000,
    "kernel.keys.root_maxbytes": 25_000_000,
    "net.ipv4.ip_forward": 1,
    "net.bridge.bridge-nf-call-iptables": 1,
    "net.ipv4.conf.all.route_localnet": 0,
  },
  firewall: { chains: [], unread: [] },
  runtimeSocket: "socket",
  otherSockets: [],
  runtime: { isReachable: true, facts: containerd },
  cni: {
    confDir: "/etc/cni/net.d",
    binDirs: ["/opt/cni/bin"],
    file: "/etc/cni/net.d/10-flannel.conflist",
    plugins: ["flannel", "portmap"],
    missingPlugins: [],
    notExecutable: [],
    bridges: [{ name: "cni0", families: [4] }],
  },
  podNetwork: {
    ...{ owner: { by: "runtime" }, folderProblem: undefined, executed: undefined, builtinRanges: undefined },
    ...{ isStandalone: false, isBuiltinFallback: false },
  },
  loopback: {
    binDirs: ["/opt/cni/bin"],
    found: { path: "/opt/cni/bin/loopback", isExecutable: true },
    isOptional: true,
  },
  rootDir: "directory",
  isRootReadOnly: false,
  rootMount: { mountPoint: "/", isShared: true },
  rootDirOwner: 0,
  rootSpace: { path: "/var/lib/kubelet", ...space },
  logSpace: { path: "/var/log/pods", ...space },
  imageSpace: { path: "/var/lib/containerd", ...space },
  manifests: "directory",
  kubeconfig: {
    path: "/etc/kubernetes/kubelet.conf",
    mode: 0o600,
    secretFiles: [{ path: "/pki/key.pem", mode: 0o600 }],
    certificate: { notBeforeMs: Date.parse("2026-06-01"), notAfterMs: Date.parse("2027-06-01") },
  },
  kubeconfigOwner: 0,
  apiServer: { server: "192.0.2.1:6443", isReachable: true, status: 200, clockAheadMs: -400 },
  configFile: { path: "/etc/berth.yaml", mode: 0o644, modifiedMs: now },
  hasUsualConfig: false,
  listeners: [],
  agent: undefined,
  nameservers: ["192.0.2.53"],
};

const cluster = ["--kubeconfig=/etc/kubernetes/kubelet.conf", "--cgroup-driver=systemd"];

async function settingsOf(argv: readonly string[]): Promise<CheckedSettings> {
  const files = { read: () => Promise.reject(new Error("no file")), list: () => Promise.resolve(undefined) };
  const loaded = await loadConfig({ argv: [...argv], files, workingDirectory: "/", hostname: "node" });
  if (loaded.kind !== "config") throw new Error("no configuration");
  return { ...loaded, warnings: [], configPath: "/etc/berth.yaml", problems: [] };
}

type Unreadable = Readonly<Record<string, string>>;

function readingsOf(facts: Facts, unreadable: Unreadable = {}): MachineFacts {
  const entries = Object.entries(facts).map(([name, value]) => {
    const why = unreadable[name];
    return [name, why === undefined ? { value } : { problem: why }];
  });
  return Object.fromEntries(entries) as MachineFacts;
}

interface Change {
  readonly facts?: Partial<Facts>;
  readonly unreadable?: Unreadable;
  readonly flags?: readonly string[];
  readonly settings?: Partial<CheckedSettings>;
}

async function findings({ facts, unreadable, flags = cluster, settings }: Change): Promise<readonly Finding[]> {
  return findingsOf(readingsOf({ ...good, ...facts }, unreadable), { ...(await settingsOf(flags)), ...settings });
}

/** `problem: what → cure` */
const lineOf = ({ state, what, cure }: Finding) => `${state}: ${what}${cure === undefined ? "" : ` → ${cure}`}`;

const ofRuntime = (changes: Partial<RuntimeFacts>): Partial<Facts> => ({
  runtime: { isReachable: true, facts: { ...containerd, ...changes } },
});
const unreachable = (code: string, message: string): Partial<Facts> => ({
  runtime: { isReachable: false, code, message },
});
const conditions = (runtime: boolean, network: boolean) => [
  { type: "RuntimeReady", status: runtime, reason: "NotYet", message: "starting" },
  { type: "NetworkReady", status: network, reason: "NetworkPluginNotReady", message: "cni plugin not initialized" },
];
const apiServer = (status: number, clockAheadMs?: number): Partial<Facts> => ({
  apiServer: { server: "192.0.2.1:6443", isReachable: true, status, clockAheadMs },
});
const sysctls = (changes: Facts["sysctls"]): Partial<Facts> => ({ sysctls: { ...good.sysctls, ...changes } });
/** The runtime's list has the delegate alone, and an agent executes another network. */
const delegated = (changes: Partial<PodNetworkFacts>, executed: Partial<CniFacts> = {}): Partial<Facts> => ({
  cni: {
    ...good.cni,
    confDir: "/etc/berth/cni/net.d",
    file: "/etc/berth/cni/net.d/10-berth.conflist",
    plugins: ["berth-cni"],
    bridges: [],
  },
  podNetwork: {
    owner: { by: "agent", delegate: { socket: "/r/cni.sock", ...cniFolders, cacheDir: "/c", timeoutMs: 1 } },
    folderProblem: undefined,
    executed: { ...good.cni, bridges: [{ name: "pods0", families: [4] }], ...executed },
    builtinRanges: undefined,
    isStandalone: false,
    isBuiltinFallback: false,
    ...changes,
  },
});
const standaloneWithoutNetwork = (changes: Pick<PodNetworkFacts, "isBuiltinFallback">): Partial<Facts> => ({
  cni: { ...good.cni, file: undefined },
  ...ofRuntime({ conditions: conditions(true, false) }),
  podNetwork: {
    owner: { by: "runtime" },
    folderProblem: undefined,
    executed: undefined,
    builtinRanges: undefined,
    isStandalone: true,
    ...changes,
  },
});
const getExecutedPlugins =
  "install the CNI plugins there (github.com/containernetworking/plugins), or name their folder by --bin-dir of berth cni install (Debian's package containernetworking-plugins: --bin-dir /opt/cni/bin:/usr/lib/cni)";
const untuned = sysctls({ "vm.overcommit_memory": 0, "kernel.panic": 0, "kernel.keys.root_maxkeys": 2_000_000 });

const withAgent = (startedAt: number, ...replaced: readonly string[]): Partial<CheckedSettings> => {
  const argv = ["--config=/etc/berth.yaml", "--manifest-url-header=token:secret"];
  return { agent: { pid: 7, startedAt, replaced, flags: splitCommandLine(argv, flagGroups).given } };
};

const firewalld = { family: "inet", table: "firewalld", chain: "filter_FORWARD" } as const;

/** A chain that drops what its rules, as `iptables -S` prints them, do not accept. */
const firewall = (chain: Partial<ForwardChain>, rules = ""): Pick<Facts, "firewall"> => ({
  firewall: {
    chains: [{ family: "ip", table: "filter", chain: "FORWARD", policy: "drop", rules: parseRules(rules), ...chain }],
    unread: [],
  },
});

const rows: readonly (readonly [check: Check, change: Change, ...lines: readonly string[]])[] = [
  ["user", {}, "ok: root"],
  [
    "user",
    { facts: { isRoot: false } },
    "warning: not root: berth doctor cannot read everything, and berth run needs root → run berth doctor as root",
  ],

  ["configuration", {}, "ok: /etc/berth.yaml can be used"],
  ["configuration", { settings: { configPath: undefined } }, "ok: no --config: flags and defaults"],
  [
    "configuration",
    { settings: { configPath: undefined }, facts: { hasUsualConfig: true } },
    "warning: no --config is given, so the defaults were checked; this machine has /var/lib/kubelet/config.yaml → to check what an agent with that file would use: berth doctor --config /var/lib/kubelet/config.yaml",
  ],
  [
    "configuration",
    { settings: { problems: ["/etc/berth.yaml:3: maxPodz: unknown field"] } },
    "problem: /etc/berth.yaml:3: maxPodz: unknown field → correct it; until then the other checks use flags and defaults alone",
  ],
  [
    "configuration",
    { settings: { warnings: ["/etc/berth.yaml:4: port is not implemented yet"] } },
    "warning: /etc/berth.yaml:4: port is not implemented yet → accept it, or change that setting: berth run starts in either case",
    "ok: /etc/berth.yaml can be used",
  ],
  [
    "configuration",
    { settings: withAgent(now) },
    "ok: that of the running agent (process 7), which was started with --config and --manifest-url-header",
    "ok: /etc/berth.yaml can be used",
  ],
  [
    "configuration",
    { settings: withAgent(now - 1, "config", "node-ip") },
    "ok: that of the running agent (process 7), which was started with --manifest-url-header, and with --config and --node-ip as given here",
    "warning: /etc/berth.yaml was changed after the agent started: the agent uses the old content, doctor checks the new one → restart the agent; its pods keep running",
    "ok: /etc/berth.yaml can be used",
  ],

  ["pod-sources", {}, "ok: the API server"],
  ["pod-sources", { flags: ["--pod-manifest-path=/m"] }, "ok: /m"],
  [
    "pod-sources",
    { flags: ["--pod-manifest-path=/m"], facts: { manifests: undefined } },
    "warning: /m does not exist: no pods come from there → mkdir -p /m",
  ],
  [
    "pod-sources",
    { flags: [] },
    "warning: no source of pods is configured: the agent would run and start nothing → set --kubeconfig for a node of a cluster, or staticPodPath for pods from files",
  ],

  ["container-runtime", {}, "ok: containerd 2.1.4 answers on unix:///run/containerd/containerd.sock"],
  [
    "container-runtime",
    { facts: ofRuntime({ conditions: conditions(false, true) }) },
    "problem: containerd 2.1.4 answers on unix:///run/containerd/containerd.sock and is not ready: NotYet: starting → read its log (journalctl -u containerd), and correct what it names",
  ],
  [
    "container-runtime",
    { facts: { runtimeSocket: undefined, ...unreachable("UNAVAILABLE", "connect ENOENT") } },
    "problem: unix:///run/containerd/containerd.sock does not exist: no container runtime runs there → install containerd and start it (systemctl enable --now containerd), or name the socket of another runtime with --container-runtime-endpoint",
  ],
  [
    "container-runtime",
    {
      facts: {
        runtimeSocket: undefined,
        otherSockets: ["/run/crio/crio.sock"],
        ...unreachable("UNAVAILABLE", "connect ENOENT"),
      },
    },
    "problem: unix:///run/containerd/containerd.sock does not exist: no container runtime runs there → there is a runtime at /run/crio/crio.sock: name it with --container-runtime-endpoint=unix:///run/crio/crio.sock or containerRuntimeEndpoint",
  ],
  [
    "container-runtime",
    { facts: { runtimeSocket: "directory", ...unreachable("UNAVAILABLE", "connect ECONNREFUSED") } },
    "problem: unix:///run/containerd/containerd.sock is a directory and not a socket → name the socket of the runtime with --container-runtime-endpoint",
  ],
  [
    "container-runtime",
    { facts: unreachable("UNAVAILABLE", "connect ECONNREFUSED") },
    "problem: the container runtime at unix:///run/containerd/containerd.sock does not answer: connect ECONNREFUSED → start it (systemctl enable --now containerd), and read its log (journalctl -u containerd)",
  ],
  [
    "container-runtime",
    { facts: unreachable("DEADLINE_EXCEEDED", "no answer within 4000 ms") },
    "problem: the container runtime at unix:///run/containerd/containerd.sock does not answer in time → systemctl restart containerd",
  ],
  [
    "container-runtime",
    { facts: unreachable("UNIMPLEMENTED", "unknown service runtime.v1.RuntimeService") },
    'problem: the program at unix:///run/containerd/containerd.sock does not offer CRI v1 (unknown service runtime.v1.RuntimeService) → with containerd: remove "cri" from disabled_plugins in /etc/containerd/config.toml, then systemctl restart containerd; containerd must be 1.6 or later',
  ],
  [
    "container-runtime",
    { facts: unreachable("UNAVAILABLE", "connect EACCES /run/a.sock") },
    "warning: this user may not connect to unix:///run/containerd/containerd.sock, so the runtime was not checked → run berth doctor as root",
  ],
  [
    "container-runtime",
    { unreadable: { runtime: "no answer within 10 s" } },
    "problem: the container runtime cannot be read: no answer within 10 s → check it by hand, then run berth doctor again",
  ],

  ["cgroup-driver", {}, "ok: systemd, in containerd and in the configuration"],
  ["cgroup-driver", { facts: ofRuntime({ cgroupDriver: undefined }) }, "ok: containerd does not say which it uses"],
  [
    "cgroup-driver",
    { flags: [] },
    "ok: containerd uses systemd, and so does the agent: it replaces cgroupDriver: cgroupfs of the configuration",
  ],
  [
    "cgroup-driver",
    { flags: [], facts: ofRuntime({ cgroupDriver: { name: "systemd", isReported: false } }) },
    "problem: containerd uses systemd, and cgroupDriver of the configuration is cgroupfs: no pod can start → set cgroupDriver: systemd in the configuration",
  ],
  [
    "cgroup-driver",
    { facts: ofRuntime({ cgroupDriver: { name: "cgroupfs", isReported: false } }) },
    "warning: containerd uses cgroupfs, and cgroupDriver of the configuration is systemd: containers run outside the cgroups of their pods, whose limits hold for none of them → set SystemdCgroup = true in the runtime's configuration and restart it; where systemd does not run, set cgroupDriver: cgroupfs",
  ],
  [
    "cgroup-driver",
    { flags: ["--cgroups-per-qos=false", "--enforce-node-allocatable="] },
    "warning: containerd uses systemd, which needs a slice for each pod, and cgroupsPerQOS is false: runc starts no container → set cgroupsPerQOS: true, or SystemdCgroup = false in the runtime's configuration and restart it",
  ],
  [
    "cgroup-driver",
    {
      flags: ["--cgroups-per-qos=false", "--enforce-node-allocatable="],
      facts: ofRuntime({ cgroupDriver: { name: "cgroupfs", isReported: true } }),
    },
    "ok: containerd uses cgroupfs, and the agent makes no cgroups",
  ],
  ["cgroup-driver", { facts: unreachable("UNAVAILABLE", "connect ECONNREFUSED") }],

  ["network", {}, "ok: /etc/cni/net.d/10-flannel.conflist uses flannel and portmap, all in /opt/cni/bin"],
  [
    "network",
    { facts: { cni: { ...good.cni, file: undefined } } },
    "ok: the container runtime says that its network is ready",
  ],
  [
    "network",
    { facts: { cni: { ...good.cni, file: undefined }, ...ofRuntime({ conditions: conditions(true, false) }) } },
    'problem: /etc/cni/net.d has no network configuration: pods without host network cannot start → install the network of your cluster (Flannel, Cilium, Calico …), or let the agent execute the built-in network, which reaches no other node: berth cni install, then conf_dir = "/etc/berth/cni/net.d" in the runtime\'s configuration and --network=builtin for berth run; restart the runtime and the agent',
  ],
  [
    "network",
    { facts: { cni: { ...good.cni, file: undefined }, ...unreachable("UNAVAILABLE", "connect EACCES /run/a.sock") } },
    'warning: /etc/cni/net.d has no network configuration: pods without host network cannot start → install the network of your cluster (Flannel, Cilium, Calico …), or let the agent execute the built-in network, which reaches no other node: berth cni install, then conf_dir = "/etc/berth/cni/net.d" in the runtime\'s configuration and --network=builtin for berth run; restart the runtime and the agent',
  ],
  [
    "network",
    { facts: standaloneWithoutNetwork({ isBuiltinFallback: true }) },
    'problem: /etc/cni/net.d has no network configuration: pods without host network cannot start → put a list into /etc/cni/net.d, or let the agent execute the built-in network: berth cni install, then conf_dir = "/etc/berth/cni/net.d" in the runtime\'s configuration; restart the runtime and the agent',
  ],
  [
    "network",
    { facts: standaloneWithoutNetwork({ isBuiltinFallback: false }) },
    'problem: /etc/cni/net.d has no network configuration: pods without host network cannot start → put a list into /etc/cni/net.d, or let the agent execute the built-in network: berth cni install, then conf_dir = "/etc/berth/cni/net.d" in the runtime\'s configuration and --network=builtin for berth run; restart the runtime and the agent',
  ],
  [
    "network",
    { facts: { cni: { ...good.cni, missingPlugins: ["portmap"] } } },
    "problem: /etc/cni/net.d/10-flannel.conflist needs portmap, and it is not in /opt/cni/bin → install the CNI plugins there (github.com/containernetworking/plugins), or point the runtime's bin_dir to them (Debian's package containernetworking-plugins: /usr/lib/cni)",
  ],
  [
    "network",
    { facts: { cni: { ...good.cni, notExecutable: ["/opt/cni/bin/portmap"] } } },
    "problem: /etc/cni/net.d/10-flannel.conflist needs /opt/cni/bin/portmap, and it is not executable → chmod +x /opt/cni/bin/portmap",
  ],
  [
    "network",
    { facts: { cni: { ...good.cni, problem: "/etc/cni/net.d/10-flannel.conflist is not JSON: Unexpected EOF" } } },
    "problem: /etc/cni/net.d/10-flannel.conflist is not JSON: Unexpected EOF → correct or remove that file",
  ],
  [
    "network",
    { facts: ofRuntime({ conditions: conditions(true, false) }) },
    "problem: the container runtime says that its network is not ready: NetworkPluginNotReady: cni plugin not initialized → correct what it names below /etc/cni/net.d, and restart the runtime if it does not notice",
  ],
  [
    "network",
    { facts: { isRoot: false }, unreadable: { cni: "/etc/cni/net.d cannot be accessed: permission denied" } },
    "warning: the network configuration cannot be read: /etc/cni/net.d cannot be accessed: permission denied → run berth doctor as root",
  ],
  [
    "network",
    { facts: delegated({}) },
    "ok: an agent with this configuration executes /etc/cni/net.d/10-flannel.conflist with flannel and portmap",
  ],
  [
    "network",
    { facts: { ...delegated({}), agent: { node: "edge", pid: 7 } } },
    "ok: the agent executes /etc/cni/net.d/10-flannel.conflist with flannel and portmap",
  ],
  [
    "network",
    { facts: delegated({ builtinRanges: ["10.241.0.0/24"] }, { plugins: ["berth"] }) },
    "ok: an agent with this configuration executes the built-in network (10.241.0.0/24)",
  ],
  [
    "network",
    { facts: delegated({ builtinRanges: [] }, { plugins: ["berth"] }) },
    "ok: an agent with this configuration executes the built-in network",
  ],
  [
    "network",
    { facts: delegated({ owner: { by: "runtime" } }) },
    "ok: the runtime's plugin berth-cni executes /etc/cni/net.d/10-flannel.conflist with flannel and portmap",
  ],
  [
    "network",
    { facts: { ...delegated({}), ...ofRuntime({ cni: undefined }), cni: { ...good.cni, file: undefined } } },
    "ok: an agent with this configuration executes /etc/cni/net.d/10-flannel.conflist with flannel and portmap",
  ],
  [
    "network",
    { facts: delegated({}, { missingPlugins: ["portmap"] }) },
    `problem: /etc/cni/net.d/10-flannel.conflist needs portmap, and it is not in /opt/cni/bin → ${getExecutedPlugins}`,
  ],
  [
    "network",
    { facts: delegated({}, { problem: "/etc/cni/net.d/10-flannel.conflist is not JSON" }) },
    "problem: /etc/cni/net.d/10-flannel.conflist is not JSON → correct or remove that file",
  ],
  [
    "network",
    { facts: delegated({}, { file: undefined }) },
    "problem: /etc/cni/net.d has no network configuration: pods without host network cannot start → install the network of your cluster (Flannel, Cilium, Calico …), or let the agent execute the built-in network, which reaches no other node: --network=builtin for berth run",
  ],
  [
    "network",
    { facts: delegated({ isStandalone: true }, { file: undefined }) },
    "problem: /etc/cni/net.d has no network configuration: pods without host network cannot start → put a list into /etc/cni/net.d, or let the agent execute the built-in network: --network=builtin for berth run",
  ],
  [
    "network",
    { facts: { ...delegated({}), ...ofRuntime({ conditions: conditions(true, false) }) } },
    "problem: the container runtime says that its network is not ready: NetworkPluginNotReady: cni plugin not initialized → correct what it names below /etc/berth/cni/net.d, and restart the runtime if it does not notice",
  ],
  [
    "network",
    { facts: delegated({ folderProblem: { found: "the container runtime reads /x", cure: "set conf_dir" } }) },
    "problem: the container runtime reads /x → set conf_dir",
  ],
  [
    "network",
    { facts: delegated({ owner: { by: "none", problem: "--network=builtin: it cannot be", cure: "leave it out" } }) },
    "problem: --network=builtin: it cannot be → leave it out",
  ],
  [
    "network",
    {
      facts: delegated({
        owner: { by: "none", problem: "--network=builtin: no list", cure: "berth cni install" },
        folderProblem: {
          found: "the container runtime calls the berth-cni of /x",
          cure: "set --network-delegate-dir=/x",
        },
      }),
    },
    "problem: the container runtime calls the berth-cni of /x → set --network-delegate-dir=/x",
  ],
  [
    "network",
    { facts: { isRoot: false }, unreadable: { podNetwork: "permission denied" } },
    "warning: the list of berth-cni cannot be read: permission denied → run berth doctor as root",
    "ok: /etc/cni/net.d/10-flannel.conflist uses flannel and portmap, all in /opt/cni/bin",
  ],

  [
    "network",
    {
      facts: { ...delegated({}), loopback: { binDirs: ["/opt/cni/bin", "/b"], found: undefined, isOptional: false } },
    },
    "ok: an agent with this configuration executes /etc/cni/net.d/10-flannel.conflist with flannel and portmap",
    "problem: the container runtime itself needs the plugin loopback, and it is not in /opt/cni/bin and /b: pods without host network cannot start → put loopback into /opt/cni/bin (Debian: apt-get install containernetworking-plugins && ln -s /usr/lib/cni/loopback /opt/cni/bin/)",
  ],
  [
    "network",
    {
      facts: {
        loopback: {
          binDirs: ["/opt/cni/bin"],
          found: { path: "/opt/cni/bin/loopback", isExecutable: false },
          isOptional: true,
        },
      },
    },
    "ok: /etc/cni/net.d/10-flannel.conflist uses flannel and portmap, all in /opt/cni/bin",
    "problem: the container runtime itself needs /opt/cni/bin/loopback, and it is not executable: pods without host network cannot start → chmod +x /opt/cni/bin/loopback, or set use_internal_loopback = true in the runtime's configuration and restart it",
  ],
  [
    "network",
    { facts: { loopback: undefined } },
    "ok: /etc/cni/net.d/10-flannel.conflist uses flannel and portmap, all in /opt/cni/bin",
  ],

  ["cgroups", {}, "ok: version 2, with cpuset, cpu, io, memory and pids"],
  [
    "cgroups",
    { facts: { cgroupControllers: ["cpuset", "cpu", "io", "pids"] } },
    "problem: the kernel has the cgroup controller memory off: containers with such limits cannot start → add cgroup_enable=memory to the kernel's command line (on Raspberry Pi OS to the one line of /boot/firmware/cmdline.txt) and reboot; if it stays off, update the firmware and the kernel",
  ],
  [
    "cgroups",
    { facts: { cgroupControllers: ["memory"] } },
    "problem: the kernel has the cgroup controllers cpu and pids off: containers with such limits cannot start → use a kernel that is built with CONFIG_CGROUP_SCHED and CONFIG_CGROUP_PIDS, and remove cgroup_disable= from its command line",
  ],
  [
    "cgroups",
    { facts: { cgroupControllers: ["cpu", "memory", "pids"] } },
    "warning: the kernel has the cgroup controller cpuset off → use a kernel that is built with cpusets",
  ],
  [
    "cgroups",
    { facts: { machine: { ...good.machine, hasCgroupV2: false } } },
    "problem: /sys/fs/cgroup is not cgroup v2, which this configuration requires → boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line, or set cgroupsPerQOS: false, enforceNodeAllocatable: [] and failCgroupV1: false in the configuration",
  ],
  [
    "cgroups",
    {
      flags: ["--cgroups-per-qos=false", "--enforce-node-allocatable=", "--fail-cgroupv1=false"],
      facts: { machine: { ...good.machine, hasCgroupV2: false } },
    },
    "warning: /sys/fs/cgroup is not cgroup v2: containers get their limits from the runtime, pods have no cgroup → boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line",
  ],

  [
    "cgroups",
    {
      facts: { configuredCgroupProblems: [{ what: 'cgroupRoot "/a" does not exist', cure: "mkdir /sys/fs/cgroup/a" }] },
    },
    'problem: cgroupRoot "/a" does not exist: the agent does not start → mkdir /sys/fs/cgroup/a',
    "ok: version 2, with cpuset, cpu, io, memory and pids",
  ],
  [
    "cgroups",
    { facts: { machine: { ...good.machine, kernelVersion: "5.4.0" } } },
    "warning: Linux 5.4.0 has no cpu.stat of the root cgroup (since 5.8): the CPU time of the node is counted in 10 ms → use Linux 5.9 or later",
    "ok: version 2, with cpuset, cpu, io, memory and pids",
  ],

  ["reservations", {}, "ok: the machine has what is reserved on it"],
  [
    "reservations",
    { flags: [...cluster, "--system-reserved=memory=3Gi,pid=40000", "--kube-reserved=memory=2Gi"] },
    "problem: the agent does not start: more is reserved than the machine has: memory 4Gi, but systemReserved 3Gi + kubeReserved 2Gi + evictionHard memory.available 100Mi = 5220Mi; pid 32768, but systemReserved 40k. Reserve less, or set a lower threshold → correct systemReserved, kubeReserved, reservedSystemCPUs and evictionHard in the configuration",
  ],
  [
    "reservations",
    { facts: { isRoot: false }, unreadable: { maxTasks: "/proc/loadavg: permission denied" } },
    "warning: the limit of processes cannot be read: /proc/loadavg: permission denied → run berth doctor as root",
  ],

  ["kernel-modules", {}, "ok: overlay is loaded", "ok: br_netfilter is loaded"],
  [
    "kernel-modules",
    { facts: { fileSystemTypes: ["ext4"], ...sysctls({ "net.bridge.bridge-nf-call-iptables": undefined }) } },
    "warning: overlay is not loaded: runtimes need it for the layers of images → modprobe overlay, and for the next boot: echo overlay >> /etc/modules-load.d/berth.conf",
    "warning: br_netfilter is not loaded: with a network on a bridge, pods do not reach Services on their own node → modprobe br_netfilter, and for the next boot: echo br_netfilter >> /etc/modules-load.d/berth.conf",
  ],

  ["sysctls", {}, "ok: the kernel's settings are those that Kubernetes expects"],
  [
    "sysctls",
    { facts: untuned },
    "ok: the agent sets vm.overcommit_memory=1 (it is 0) and kernel.panic=10 (it is 0) when it starts",
  ],
  [
    "sysctls",
    { flags: [...cluster, "--set-kernel-tunables=false"], facts: untuned },
    "warning: Kubernetes expects vm.overcommit_memory=1 (it is 0) and kernel.panic=10 (it is 0), and --set-kernel-tunables is false → sysctl -w vm.overcommit_memory=1 kernel.panic=10, and for the next boot the same in /etc/sysctl.d/90-berth.conf, one per line",
  ],
  [
    "sysctls",
    { flags: [...cluster, "--protect-kernel-defaults"], facts: sysctls({ "kernel.keys.root_maxkeys": 2_000_000 }) },
    "problem: protectKernelDefaults is true, and the kernel would need kernel.keys.root_maxkeys=1000000 (it is 2000000): the agent does not start → sysctl -w kernel.keys.root_maxkeys=1000000, and for the next boot the same in /etc/sysctl.d/90-berth.conf, one per line",
  ],
  [
    "sysctls",
    { facts: sysctls({ "net.ipv4.ip_forward": 0 }) },
    "ok: the kernel's settings are those that Kubernetes expects",
    "warning: net.ipv4.ip_forward is 0: pods do not reach other machines unless their network sets it → sysctl -w net.ipv4.ip_forward=1, and for the next boot the same in /etc/sysctl.d/90-berth.conf, one per line",
  ],
  [
    "sysctls",
    { facts: sysctls({ "net.ipv4.conf.all.route_localnet": 1 }) },
    "ok: the kernel's settings are those that Kubernetes expects",
    "warning: net.ipv4.conf.all.route_localnet is 1: neighbours on the network can reach services that listen on 127.0.0.1 only → sysctl -w net.ipv4.conf.all.route_localnet=0, unless something here needs it and drops such packets itself",
  ],

  ["firewall", {}, "ok: no chain drops all packets that come from cni0, or that go there"],
  ["firewall", { facts: { cni: { ...good.cni, bridges: [] }, ...firewall({}) } }],
  [
    "firewall",
    { facts: firewall({}, "-N DOCKER-USER\n-A FORWARD -j DOCKER-USER") },
    "warning: the chain FORWARD of the table ip filter (Docker) drops what no rule accepts, and no rule accepts every packet from and to cni0: unless rules for some of them do, pods reach no other machine and other machines reach no pod → iptables-nft -I DOCKER-USER -i cni0 -j ACCEPT && iptables-nft -I DOCKER-USER -o cni0 -j ACCEPT",
  ],
  [
    "firewall",
    { facts: firewall({}, "-N DOCKER-USER\n-A FORWARD -j DOCKER-USER\n-A DOCKER-USER -i cni0 -j ACCEPT") },
    "warning: the chain FORWARD of the table ip filter (Docker) drops what no rule accepts, and no rule accepts every packet to cni0: unless rules for some of them do, other machines reach no pod → iptables-nft -I DOCKER-USER -o cni0 -j ACCEPT",
  ],
  [
    "firewall",
    { facts: firewall({}, "-A FORWARD -i cni0 -j ACCEPT\n-A FORWARD -o cni0 -j ACCEPT") },
    "ok: no chain drops all packets that come from cni0, or that go there",
  ],
  [
    "firewall",
    {
      facts: {
        ...firewall({ family: "ip6" }, "-N ufw6-before-forward\n-A FORWARD -j ufw6-before-forward"),
        cni: { ...good.cni, bridges: [{ name: "berth0", families: [6] }] },
      },
    },
    "warning: the chain FORWARD of the table ip6 filter (ufw) drops what no rule accepts, and no rule accepts every packet from and to berth0: unless rules for some of them do, pods reach no other machine and other machines reach no pod → ufw route allow in on berth0 && ufw route allow out on berth0",
  ],
  [
    "firewall",
    { facts: firewall({ family: "ip6" }) },
    "ok: no chain drops all packets that come from cni0, or that go there",
  ],
  [
    "firewall",
    { facts: firewall({ family: "inet", table: "f", chain: "forward" }) },
    "warning: the chain forward of the table inet f drops what no rule accepts, and no rule accepts every packet from and to cni0: unless rules for some of them do, pods reach no other machine and other machines reach no pod → nft insert rule inet f forward iifname cni0 accept && nft insert rule inet f forward oifname cni0 accept",
  ],
  [
    "firewall",
    { facts: firewall({ ...firewalld, policy: "accept" }, "-A filter_FORWARD -j REJECT") },
    "warning: the chain filter_FORWARD of the table inet firewalld drops what no rule accepts, and no rule accepts every packet from and to cni0: unless rules for some of them do, pods reach no other machine and other machines reach no pod → firewall-cmd --permanent --zone=trusted --add-interface=cni0 && firewall-cmd --permanent --new-policy=to-pods && firewall-cmd --permanent --policy=to-pods --add-ingress-zone=ANY && firewall-cmd --permanent --policy=to-pods --add-egress-zone=trusted && firewall-cmd --permanent --policy=to-pods --set-target=ACCEPT && firewall-cmd --reload",
  ],
  [
    "firewall",
    { facts: firewall(firewalld, "-A filter_FORWARD -o cni0 -j ACCEPT") },
    "warning: the chain filter_FORWARD of the table inet firewalld drops what no rule accepts, and no rule accepts every packet from cni0: unless rules for some of them do, pods reach no other machine → firewall-cmd --permanent --zone=trusted --add-interface=cni0 && firewall-cmd --reload",
  ],
  [
    "firewall",
    { facts: { ...delegated({}), ...firewall({}) } },
    "warning: the chain FORWARD of the table ip filter drops what no rule accepts, and no rule accepts every packet from and to pods0: unless rules for some of them do, pods reach no other machine and other machines reach no pod → iptables-nft -I FORWARD -i pods0 -j ACCEPT && iptables-nft -I FORWARD -o pods0 -j ACCEPT",
  ],
  ["firewall", { facts: { ...delegated({}, { bridges: [] }), ...firewall({}) } }],
  [
    "firewall",
    { facts: firewall({ family: "iptables" }) },
    "warning: the chain FORWARD of the table filter of iptables-legacy drops what no rule accepts, and no rule accepts every packet from and to cni0: unless rules for some of them do, pods reach no other machine and other machines reach no pod → iptables-legacy -I FORWARD -i cni0 -j ACCEPT && iptables-legacy -I FORWARD -o cni0 -j ACCEPT",
  ],
  [
    "firewall",
    { facts: { firewall: { chains: [], unread: ["iptables", "ip6tables"] } } },
    "warning: the kernel has a table filter of iptables-legacy, and that program is not installed: whether it drops packets of cni0 was not checked → install iptables-legacy (Debian's package iptables), and run berth doctor again",
  ],
  [
    "firewall",
    { unreadable: { firewall: "EPERM" }, facts: { isRoot: false } },
    "warning: the firewall's chains cannot be read: EPERM → run berth doctor as root",
  ],

  ["memory", {}, "ok: 3.0 GiB of 4.0 GiB available"],
  [
    "memory",
    { facts: { memory: undefined } },
    "warning: the kernel does not say how much memory is available → mount /proc, and use Linux 3.14 or later",
  ],
  [
    "memory",
    { facts: { memory: { capacity: gibibyte, available: 64 * 2 ** 20 } } },
    "problem: 64 MiB of 1.0 GiB available, less than evictionHard allows (100 MiB): the node reports MemoryPressure and gets no pods → end other programs, or lower memory.available of evictionHard in the configuration",
  ],
  ["memory", { flags: ["--eviction-hard=memory.available<100%"] }, "ok: 3.0 GiB of 4.0 GiB available"],
  [
    "memory",
    { flags: ["--eviction-hard=memory.available<0%"], facts: { memory: { capacity: gibibyte, available: 0 } } },
    "ok: 0 bytes of 1.0 GiB available",
  ],

  ["swap", {}, "ok: off"],
  [
    "swap",
    { facts: { swapDevices: ["/dev/zram0"] } },
    "problem: on (/dev/zram0), and failSwapOn is true: the agent does not start → for the zram of Raspberry Pi OS, set Mechanism=none under [Main] in /etc/rpi/swap.conf and reboot, or set failSwapOn: false",
  ],
  [
    "swap",
    { flags: ["--fail-swap-on=false"], facts: { swapDevices: ["/dev/zram0"] } },
    "ok: on (/dev/zram0), and failSwapOn is false; pods get it by swapBehavior NoSwap",
  ],

  ["clock", {}, "ok: 2026-11-22 12:00:00 UTC, synchronized by a time service"],
  ["clock", { facts: { isClockSynchronized: undefined } }, "ok: 2026-11-22 12:00:00 UTC"],
  [
    "clock",
    { facts: { isClockSynchronized: false } },
    "warning: 2026-11-22 12:00:00 UTC; no time service keeps it right: certificates and leases fail when it drifts → timedatectl set-ntp true, or install and start chrony",
  ],
  [
    "clock",
    { facts: { nowMs: 0 } },
    "problem: the clock shows 1970-01-01 00:00:00 UTC, which is in the past: certificates are not valid yet → timedatectl set-ntp true, or install and start chrony",
  ],

  ["temperature", {}, "ok: 48 °C"],
  ["temperature", { facts: { inventory: { board: "", disks: [] } } }, "ok: this machine shows no sensor"],
  [
    "temperature",
    { facts: { inventory: { ...good.inventory, temperatureCelsius: 85 } } },
    "warning: 85 °C: the processor slows itself down → cool the machine",
  ],
  [
    "temperature",
    { unreadable: { inventory: "berth doctor --inventory did not end within 8000 ms" } },
    "warning: the machine's sensors and disks cannot be read: berth doctor --inventory did not end within 8000 ms → check it by hand, then run berth doctor again",
  ],

  ["root-directory", {}, "ok: /var/lib/kubelet"],
  [
    "root-directory",
    { facts: { rootDir: undefined } },
    "ok: /var/lib/kubelet does not exist yet: the agent creates it",
  ],
  [
    "root-directory",
    { facts: { isRootReadOnly: true } },
    "problem: the file system of /var/lib/kubelet is read-only: the agent cannot keep its records → look for disk errors (dmesg), replace a failing disk or SD card, or mount -o remount,rw; or set --root-dir to another disk",
  ],
  [
    "root-directory",
    { facts: { rootDirOwner: 1000, rootMount: { mountPoint: "/var", isShared: false } } },
    "ok: /var/lib/kubelet",
    "warning: /var/lib/kubelet belongs to the user with id 1000, who can change the agent's records and the volumes of pods → chown root:root /var/lib/kubelet",
    "warning: /var/lib/kubelet is on the mount /var, which is not shared: mountPropagation HostToContainer and Bidirectional have no effect → mount --make-rshared /var, at each boot before the container runtime starts",
  ],
  [
    "root-directory",
    { facts: { rootDir: undefined, rootDirOwner: undefined, rootMount: undefined } },
    "ok: /var/lib/kubelet does not exist yet: the agent creates it",
  ],
  [
    "root-directory",
    { facts: { rootDir: "file" } },
    "problem: /var/lib/kubelet is a file and not a directory → remove it, or set --root-dir to another directory",
  ],
  [
    "root-directory",
    { flags: [`--root-dir=/${"x".repeat(100)}`] },
    `problem: /${"x".repeat(100)}/berth.sock is longer than the 107 bytes that a socket's path may have → set --root-dir to a shorter path`,
  ],

  [
    "disk-space",
    {},
    "ok: /var/lib/kubelet: 20 GiB of 32 GiB free",
    "ok: /var/log/pods: 20 GiB of 32 GiB free",
    "ok: /var/lib/containerd: 20 GiB of 32 GiB free",
  ],
  [
    "disk-space",
    {
      facts: {
        rootSpace: { ...good.rootSpace, freeBytes: gibibyte },
        logSpace: { ...good.logSpace, freeInodes: 10 },
        imageSpace: undefined,
      },
    },
    "problem: /var/lib/kubelet: 1.0 GiB of 32 GiB free, less than evictionHard allows (3.2 GiB): the node reports DiskPressure and gets no pods → remove what is not needed (journalctl --vacuum-size=100M, apt-get clean), or use a larger disk",
    "problem: /var/log/pods: 10 of 2000000 inodes free, less than evictionHard allows: the node reports DiskPressure and gets no pods → remove what is not needed (journalctl --vacuum-size=100M, apt-get clean), or use a larger disk",
  ],
  [
    "disk-space",
    {
      facts: { imageSpace: { path: "/images", ...space, freeBytes: 4 * gibibyte } },
      unreadable: { rootSpace: "no answer within 10 s" },
    },
    "problem: the free space of /var/lib/kubelet cannot be read: no answer within 10 s → check it by hand, then run berth doctor again",
    "ok: /var/log/pods: 20 GiB of 32 GiB free",
    "problem: /images: 4.0 GiB of 32 GiB free, less than evictionHard allows (4.8 GiB): the node reports DiskPressure and gets no pods → remove unused images (crictl rmi --prune), or use a larger disk",
  ],

  ["kubeconfig", {}, "ok: /etc/kubernetes/kubelet.conf; its client certificate is valid until 2027-06-01"],
  ["kubeconfig", { flags: [] }],
  [
    "kubeconfig",
    { facts: { kubeconfig: { path: "/k", mode: undefined, secretFiles: [] } } },
    "problem: /k does not exist → join the node to its cluster (kubeadm join writes it), or remove --kubeconfig for a node with pods from files",
  ],
  [
    "kubeconfig",
    { facts: { kubeconfig: { path: "/k", mode: 0o600, secretFiles: [{ path: "/key", mode: undefined }] } } },
    "problem: /k names /key, which does not exist → join the node again (kubeadm token create --print-join-command on the control plane, kubeadm reset and kubeadm join here), or copy a new certificate to this node",
  ],
  [
    "kubeconfig",
    { facts: { nowMs: Date.parse("2027-07-01") } },
    "problem: the client certificate of /etc/kubernetes/kubelet.conf expired on 2027-06-01 → join the node again (kubeadm token create --print-join-command on the control plane, kubeadm reset and kubeadm join here), or copy a new certificate to this node",
  ],
  [
    "kubeconfig",
    { facts: { nowMs: Date.parse("2026-05-01") } },
    "problem: the client certificate of /etc/kubernetes/kubelet.conf is valid only from 2026-06-01 on, and the clock shows 2026-05-01 → set the clock: timedatectl set-ntp true, or install and start chrony",
  ],
  [
    "kubeconfig",
    { unreadable: { kubeconfig: "/k:3 is not YAML" } },
    "problem: /etc/kubernetes/kubelet.conf cannot be read: /k:3 is not YAML → check it by hand, then run berth doctor again",
  ],

  ["api-server", {}, "ok: 192.0.2.1:6443 answers, and its clock agrees with this machine's"],
  ["api-server", { flags: [] }],
  ["api-server", { facts: { apiServer: undefined } }],
  [
    "api-server",
    { facts: { apiServer: { server: "192.0.2.1:6443", isReachable: false, message: "no answer within 4 s" } } },
    "problem: the API server 192.0.2.1:6443 does not answer: no answer within 4 s → check that it runs, that server and certificate-authority of the kubeconfig are right, and that no firewall lies in between: curl -k https://192.0.2.1:6443/healthz",
  ],
  [
    "api-server",
    { facts: apiServer(500, 0) },
    "warning: the API server 192.0.2.1:6443 is not healthy: it answers with HTTP 500 → wait until it is ready, and read its log",
  ],
  ["api-server", { facts: apiServer(401, 0) }, "ok: 192.0.2.1:6443 answers, and its clock agrees with this machine's"],
  ["api-server", { facts: apiServer(200) }, "ok: 192.0.2.1:6443 answers, and does not say what its clock shows"],
  [
    "api-server",
    { facts: apiServer(200, -5_000) },
    "ok: 192.0.2.1:6443 answers, and its clock agrees with this machine's",
  ],
  [
    "api-server",
    { facts: apiServer(200, -6_000) },
    "warning: 192.0.2.1:6443 answers; the clock of this machine is 6 s behind the API server's: certificates and leases fail when it grows → timedatectl set-ntp true, or install and start chrony",
  ],
  [
    "api-server",
    { facts: apiServer(200, 41_000) },
    "problem: 192.0.2.1:6443 answers; the clock of this machine is 41 s ahead of the API server's, more than the node's lease lasts (40 s): certificates and leases fail with such a difference → timedatectl set-ntp true, or install and start chrony",
  ],
  [
    "api-server",
    { unreadable: { apiServer: "/k names no server" } },
    "warning: the cluster of /etc/kubernetes/kubelet.conf cannot be read: /k names no server → check it by hand, then run berth doctor again",
  ],

  ["file-modes", {}, "ok: other users cannot read the secrets, nor change the configuration"],
  ["file-modes", { flags: [], facts: { kubeconfig: undefined, configFile: undefined } }],
  [
    "file-modes",
    {
      facts: {
        kubeconfig: { path: "/k", mode: 0o644, secretFiles: [{ path: "/key", mode: 0o640 }] },
        configFile: { path: "/c", mode: 0o666, modifiedMs: now },
      },
    },
    "warning: /k holds secrets and has mode 0644 → chmod 600 /k",
    "warning: /key holds secrets and has mode 0640 → chmod 600 /key",
    "warning: /c has mode 0666: other users can change the configuration → chmod go-w /c",
  ],

  [
    "file-modes",
    { facts: { kubeconfigOwner: 1000 } },
    "warning: /etc/kubernetes/kubelet.conf belongs to the user with id 1000, who can read and change it → chown root:root /etc/kubernetes/kubelet.conf",
  ],

  ["ports", {}, "ok: no other program listens on 10250 or 10248"],
  [
    "ports",
    { facts: { listeners: [{ port: 10250, pid: 7, program: "k3s-agent" }] } },
    "problem: k3s-agent (process 7) listens on port 10250: two agents on one container runtime remove each other's pods → stop it: systemctl disable --now k3s-agent",
  ],
  [
    "ports",
    { facts: { listeners: [{ port: 10248, pid: 7, program: "nginx" }, { port: 10250 }] } },
    "warning: nginx (process 7) listens on port 10248, a port of the kubelet → stop that program, or set healthzPort; if it contains a kubelet, stop it before berth run",
    "problem: another program listens on port 10250, which the node's API needs → stop that program, or set port; if it contains a kubelet, stop it before berth run",
  ],
  [
    "ports",
    { facts: { listeners: [{ port: 10250, pid: 7, program: "kubelet" }], agent: { node: "a", pid: 7 } } },
    "ok: no other program listens on 10250 or 10248",
  ],

  ["dns", {}, "ok: /etc/resolv.conf names 192.0.2.53"],
  ["dns", { flags: ["--resolv-conf="] }, "ok: pods do not inherit the node's resolver (resolvConf is empty)"],
  [
    "dns",
    { facts: { nameservers: [] } },
    "warning: /etc/resolv.conf names no nameserver → name one there, or set resolvConf to another file",
  ],
  [
    "dns",
    { facts: { nameservers: ["127.0.0.53"] } },
    "warning: /etc/resolv.conf names 127.0.0.53 alone, which no pod can reach → set resolvConf: /run/systemd/resolve/resolv.conf in the configuration (with systemd-resolved), or a file with the real nameservers",
  ],

  ["agent", {}, "ok: none runs with the root directory /var/lib/kubelet"],
  ["agent", { facts: { agent: { node: "pi-7", pid: 9 } } }, "ok: runs as node pi-7: berth status shows more"],
];

describe("findings:", () => {
  for (const [check, change, ...lines] of rows)
    test(`${check}: ${lines[0] ?? "nothing to say"}`, async () => {
      const found = await findings(change);
      expect(found.filter((finding) => finding.check === check).map(lineOf)).toEqual([...lines]);
    });
});

test("every check has a row, and every problem a cure", () => {
  expect(new Set(rows.map(([check]) => check))).toEqual(new Set(checks));
  const problems = rows.flatMap(([, , ...lines]) => lines).filter((line) => line.startsWith("problem: "));
  expect(problems.filter((line) => !line.includes(" → "))).toEqual([]);
});

test("a machine whose facts are all unreadable yields findings that say so, and no crash", async () => {
  const unreadable = Object.fromEntries(Object.keys(good).map((name) => [name, "no answer within 10 s"]));
  const found = await findings({ unreadable, flags: [...cluster, "--pod-manifest-path=/m"] });
  const silent = found.filter(({ what }) => !what.includes("no answer within 10 s")).map(({ check }) => check);
  expect(silent).toEqual(["user", "configuration"]);
});

test("cgroup v1 is a problem exactly where the agent refuses to start on it", async () => {
  for (const perQos of [true, false])
    for (const failsOnV1 of [true, false])
      for (const single of [true, false, undefined]) {
        const { config, ...settings } = await settingsOf(cluster);
        const changed = { ...config, cgroupsPerQOS: perQos, failCgroupV1: failsOnV1, singleProcessOOMKill: single };
        const machine = { ...good.machine, hasCgroupV2: false };
        const found = findingsOf(readingsOf({ ...good, machine }), { ...settings, config: changed });
        const hasProblem = found.some(({ check, state }) => check === "cgroups" && state === "problem");
        const refuses = () => checkCgroups(changed, machine, new FakeLog());
        if (hasProblem) expect(refuses).toThrow();
        else expect(refuses).not.toThrow();
      }
});
