// The real kube-proxy of a node in a network namespace of its own.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { unpackPackages } from "../../bed/packages.ts";
import { sendRequest, startDaemon, waitUntilReady } from "../../upstream/daemon.ts";
import { kubeProxyProgram } from "../../upstream/go-program.ts";
import type { ClusterNode } from "./node.ts";

export const proxyModes = ["iptables", "nftables"] as const;
export type ProxyMode = (typeof proxyModes)[number];

/** Gets kube-proxy and `nft`, for which the network namespace of a test has no way out. */
export async function prepareKubeProxy(): Promise<void> {
  await kubeProxyProgram.ensure();
  await unpackPackages("bookworm-nftables", console.log);
}

export interface KubeProxy {
  /** The mode in which it says that it runs. */
  mode(): Promise<string>;
  /** Its rules of both families, without counters. */
  rules(): Promise<readonly string[]>;
  /** Stops it and removes its rules. */
  stop(): Promise<void>;
}

const metrics = "http://127.0.0.1:10249";

/**
 * Starts kube-proxy, which writes the rules of all Services soon after. It leaves the limits of connection tracking as they are,
 * since the whole machine shares one of them. Throws with the end of its log if it does not answer.
 */
export async function startKubeProxy({ plane, node }: ClusterNode, mode: ProxyMode): Promise<KubeProxy> {
  const user = "system:kube-proxy";
  const kubeconfig = await plane.kubeconfig(user, plane.authority.issue({ commonName: user }));
  const program = await kubeProxyProgram.ensure();
  const folder = join(node.folder, "kube-proxy");
  await mkdir(folder, { recursive: true });
  const nft = await writeNftScript(folder);
  const PATH = `${folder}:${process.env["PATH"]}`;
  const flags = [
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${node.name}`,
    `--proxy-mode=${mode}`,
    "--detect-local-mode=NodeCIDR",
    "--conntrack-max-per-core=0",
    "--conntrack-tcp-timeout-established=0s",
    "--conntrack-tcp-timeout-close-wait=0s",
    "--oom-score-adj=0",
    "--v=2",
  ];
  const daemon = startDaemon("env", [`PATH=${PATH}`, program, ...flags], join(folder, "kube-proxy.log"));
  try {
    for (const url of ["http://127.0.0.1:10256/healthz", `${metrics}/healthz`]) await waitUntilReady(daemon, url);
  } catch (error) {
    await daemon.end("SIGKILL");
    throw error;
  }
  return {
    mode: async () => (await sendRequest(`${metrics}/proxyMode`)).text,
    rules: () => (mode === "nftables" ? nftablesRules(nft) : iptablesRules()),
    async stop() {
      await daemon.end("SIGTERM");
      await execa(program, ["--cleanup"], { env: { PATH } });
      // It leaves the chain KUBE-FIREWALL, which the kubelet writes, too. Nothing else of this namespace is in its table.
      for (const iptables of ["iptables", "ip6tables"])
        for (const change of ["--flush", "--delete-chain"]) await execa(iptables, [change]);
    },
  };
}

/** The rules of Berth's own table, without counters. */
export async function berthRules(folder: string): Promise<string> {
  const { stdout } = await execa(await writeNftScript(folder), ["--stateless", "list", "table", "inet", "berth"]);
  return stdout;
}

async function nftablesRules(nft: string): Promise<readonly string[]> {
  const { stdout } = await execa(nft, ["--stateless", "list", "ruleset"]);
  const tables = stdout.split(/^(?=table )/m).filter((table) => /^table ip6? kube-proxy /.test(table));
  return tables.flatMap((table) => table.split("\n"));
}

async function iptablesRules(): Promise<readonly string[]> {
  const saved = await Promise.all(["iptables-save", "ip6tables-save"].map((program) => execa(program)));
  return saved.flatMap(({ stdout }) => stdout.split("\n").filter((line) => /^-A .*KUBE-/.test(line)));
}

/** Writes a script `nft` into `folder` that runs Debian's program with its libraries, and returns its path. */
async function writeNftScript(folder: string): Promise<string> {
  const { root } = await unpackPackages("bookworm-nftables");
  const libraries = `usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`;
  const command = `LD_LIBRARY_PATH=${join(root, libraries)} exec ${join(root, "usr/sbin/nft")} "$@"`;
  const path = join(folder, "nft");
  await writeFile(path, `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  return path;
}
