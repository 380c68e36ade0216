// What berth doctor says about the chains of a firewall, made with the real iptables in a network namespace of its own:
// before its cure, and after the commands of its cure.

import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { CheckedSettings, Finding } from "../../cli/doctor/finding.ts";
import { readFirewall } from "../../cli/doctor/firewall-facts.ts";
import { judgeFirewall } from "../../cli/doctor/firewall-findings.ts";
import type { MachineFacts } from "../../cli/doctor/machine-facts.ts";
import { createExec } from "../../host/exec.ts";
import { FilesError } from "../../host/fs/files.ts";
import { createNetlink } from "../../host/netlink/netlink.ts";
import { createTestNamespaces, outputIn, type TestNamespace } from "./network-namespaces.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: chains of a firewall, since only root may make network namespaces");

const namespaces = createTestNamespaces();
afterEach(() => namespaces.closeAll());
const netlink = createNetlink();

/** The warnings. */
async function findingsIn(namespace: TestNamespace): Promise<readonly Finding[]> {
  const cni = { value: { bridges: [{ name: "berth0", families: [4, 6] }] } };
  const facts = { cni, firewall: { value: await firewallIn(namespace) } } as unknown as MachineFacts;
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
