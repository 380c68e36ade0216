// What berth doctor says about the chains of a firewall, made with the real iptables in a network namespace of its own:
// before its cure, and after the commands of its cure.

import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CheckedSettings, Finding } from "../../cli/doctor/finding.ts";
import { readFirewall } from "../../cli/doctor/firewall-facts.ts";
import { judgeFirewall } from "../../cli/doctor/firewall-findings.ts";
import type { MachineFacts } from "../../cli/doctor/machine-facts.ts";
import { readPodNetworkFacts } from "../../cli/doctor/pod-network-facts.ts";
import { formatBuiltinList } from "../../cni/delegate/builtin-list.ts";
import { formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import { readCniFacts } from "../../cni/network-facts.ts";
import { createExec } from "../../host/exec.ts";
import { createFiles, FilesError } from "../../host/fs/files.ts";
import { createNetlink } from "../../host/netlink/netlink.ts";
import { createTestNamespaces, outputIn, type TestNamespace } from "./network-namespaces.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: chains of a firewall, since only root may make network namespaces");

const namespaces = createTestNamespaces();
afterEach(() => namespaces.closeAll());
const netlink = createNetlink();

/** A node whose runtime executes the network. */
const ofRuntime = {
  cni: { value: { bridges: [{ name: "berth0", families: [4, 6] }] } },
  podNetwork: { value: { executed: undefined } },
};

/** The warnings. */
async function findingsIn(namespace: TestNamespace, network: object = ofRuntime): Promise<readonly Finding[]> {
  const facts = { ...network, firewall: { value: await firewallIn(namespace) } } as unknown as MachineFacts;
  return judgeFirewall(facts, {} as CheckedSettings).filter(({ state }) => state !== "ok");
}

function firewallIn(namespace: TestNamespace) {
  const exec = createExec();
  return readFirewall({
    files: {
      read: async (path) => {
        try {
          return namespace.run(() => readFileSync(path.replace("/proc/net", "/proc/thread-self/net"), "utf8"));
        } catch (cause) {
          throw new FilesError("ENOENT", path, `${path} does not exist`, { cause });
        }
      },
    },
    exec: { run: (argv, options) => exec.run(["nsenter", `--net=${namespace.path}`, "--", ...argv], options) },
    netlink: { openSocket: (protocol) => namespace.run(() => netlink.openSocket(protocol)) },
    path: process.env["PATH"] ?? "",
    timeoutMs: 5_000,
  });
}

const run = (namespace: TestNamespace, commands: readonly string[]) => {
  for (const command of commands) outputIn(namespace, ...command.split(" "));
};

const docker = (program: string) => [
  `${program} -P FORWARD DROP`,
  `${program} -N DOCKER-USER`,
  `${program} -A FORWARD -j DOCKER-USER`,
  `${program} -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
  `${program} -A FORWARD -i docker0 ! -o docker0 -j ACCEPT`,
];

describe.skipIf(!isRoot)("the chains of a firewall", () => {
  test("a namespace without one", async () => {
    expect(await findingsIn(namespaces.create())).toEqual([]);
  });

  test.each([
    ["the chains of Docker", docker("iptables-nft"), "FORWARD of the table ip filter (Docker)"],
    ["those of IPv6", docker("ip6tables-nft"), "FORWARD of the table ip6 filter (Docker)"],
    ["a policy alone", ["iptables-nft -P FORWARD DROP"], "FORWARD of the table ip filter"],
    ["a rule at the end", ["iptables-nft -A FORWARD -j REJECT"], "FORWARD of the table ip filter"],
    ["iptables-legacy", docker("iptables-legacy"), "FORWARD of the table filter of iptables-legacy (Docker)"],
    ["ip6tables-legacy", ["ip6tables-legacy -P FORWARD DROP"], "FORWARD of the table filter of ip6tables-legacy"],
  ])("%s: the cure ends the warning", async (_, commands, chain) => {
    const namespace = namespaces.create();
    run(namespace, commands);
    const [finding, ...more] = await findingsIn(namespace);
    expect(finding?.what).toStartWith(`the chain ${chain} drops what no rule accepts`);
    expect(more).toEqual([]);
    const [incoming = "", outgoing = ""] = finding?.cure?.split(" && ") ?? [];
    run(namespace, [incoming]);
    expect((await findingsIn(namespace)).map(({ cure }) => cure)).toEqual([outgoing]);
    run(namespace, [outgoing]);
    expect(await findingsIn(namespace)).toEqual([]);
  });

  test("the bridge is that of the network which the agent executes, where the runtime knows the delegate alone", async () => {
    const folder = await mkdtemp(join(tmpdir(), "berth-firewall-"));
    const [chainDir, delegateDir] = [join(folder, "net.d"), join(folder, "delegate.d")];
    for (const path of [chainDir, delegateDir]) await mkdir(path);
    const list = formatBuiltinList(["10.88.0.0/24"], { name: "pods", bridge: "pods0" });
    await writeFile(join(chainDir, "10-pods.conflist"), list);
    const folders = { confDir: chainDir, binDirs: [folder], cacheDir: folder };
    const delegate = formatDelegateList({ ...folders, socket: `${folder}/cni.sock`, timeoutMs: 1_000 });
    await writeFile(join(delegateDir, "10-berth.conflist"), delegate);
    const network = { source: "chain", owner: "auto", delegateDir, podCIDRs: [] } as const;
    const config = { network, rootDir: folder, clusterConfigSource: undefined };
    const files = createFiles("/");
    const facts = {
      cni: { value: await readCniFacts(files, { confDir: delegateDir, binDirs: [folder] }) },
      podNetwork: { value: await readPodNetworkFacts(files, config, delegateDir) },
    };
    await rm(folder, { recursive: true });
    const namespace = namespaces.create();
    run(namespace, docker("iptables-nft"));
    const [finding, ...more] = await findingsIn(namespace, facts);
    expect(more).toEqual([]);
    run(namespace, finding?.cure?.split(" && ") ?? []);
    expect(finding?.cure).toContain("-i pods0 -j ACCEPT");
    expect(await findingsIn(namespace, facts)).toEqual([]);
  });

  test("a rule for some packets only is no cure", async () => {
    const namespace = namespaces.create();
    run(namespace, [
      "iptables-nft -P FORWARD DROP",
      "iptables-nft -A FORWARD -i berth0 -p tcp -j ACCEPT",
      "iptables-nft -A FORWARD -o berth0 -m comment --comment web -m conntrack --ctstate NEW -j ACCEPT",
      "iptables-nft -A FORWARD -i berth01 -j ACCEPT",
    ]);
    expect(await findingsIn(namespace)).toHaveLength(1);
  });
});
