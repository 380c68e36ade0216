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
  /** Stops it and removes its rules. */
  stop(): Promise<void>;
}

/**
 * Starts kube-proxy, which writes the rules of all Services soon after. It leaves the limits of connection tracking as they are,
 * since the whole machine shares one of them. Throws with the end of its log if it does not answer.
 */
export async function startKubeProxy({ plane, node }: ClusterNode, mode: ProxyMode): Promise<KubeProxy> {
  const user = "system:kube-proxy";
  const kubeconfig = await plane.kubeconfig(user, plane.authority.issue({ commonName: user }));
  const program = await kubeProxyProgram.ensure();
  const PATH = `${await writeNftScript(join(node.folder, "kube-proxy"))}:${process.env["PATH"]}`;
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
  const logFile = join(node.folder, "kube-proxy", "kube-proxy.log");
  const daemon = startDaemon("env", [`PATH=${PATH}`, program, ...flags], logFile);
  await waitUntilReady(daemon, "http://127.0.0.1:10256/healthz");
  return {
    mode: async () => (await sendRequest("http://127.0.0.1:10249/proxyMode")).text,
    async stop() {
      await daemon.end("SIGTERM");
      await execa(program, ["--cleanup"], { env: { PATH } });
    },
  };
}

/** Writes a script `nft` into `folder` that runs Debian's program with its libraries, and returns the folder. */
async function writeNftScript(folder: string): Promise<string> {
  const { root } = await unpackPackages("bookworm-nftables");
  const libraries = `usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`;
  await mkdir(folder, { recursive: true });
  const command = `LD_LIBRARY_PATH=${join(root, libraries)} exec ${join(root, "usr/sbin/nft")} "$@"`;
  await writeFile(join(folder, "nft"), `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  return folder;
}
