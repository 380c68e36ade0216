import { chmod, lstat, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { DELEGATE_TYPE } from "../../cni/delegate-network.ts";
import {
  RemovePodSandboxRequest,
  RemovePodSandboxResponse,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
  StopPodSandboxRequest,
  StopPodSandboxResponse,
} from "../../proto/cri/gen/api.ts";
import { podAnnotationsCapability } from "../../proto/kubernetes/well-known-names.ts";
import { builtBinary } from "../bed/agent.ts";
import { cniConflist } from "../bed/containerd/containerd-config.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { pollUntil } from "../bed/poll-until.ts";
import type { TestNode } from "./node.ts";

/** libcni's cache, in which the agent finds the attachments that the runtime has made itself. */
export const runtimeCache = "/var/lib/cni";
const builtinRecords = "/run/berth/network";

/** All that runtimes hand over to plugins. */
const CAPABILITIES = [
  ...["portMappings", "bandwidth", "ipRanges", "dns", "mac", "ips", "cgroupPath"],
  podAnnotationsCapability,
] as const;

/** What the kernel, the plugins and the caches have of the pods of a node; all are empty after they are gone. */
export interface PodNetworkRemains {
  readonly links: readonly string[];
  readonly leases: readonly string[];
  readonly reserved: readonly string[];
  readonly cached: readonly string[];
  /** Of portmap. */
  readonly rules: readonly string[];
}

/**
 * A node whose container runtime has folders of its own for plugins and networks. The plugin `held-bridge` is bridge, `held-last` and
 * `recorded-last` change nothing; all wait in one verb while they are held. `recorded-last` records what it gets with ADD.
 */
export type NetworkNode = Awaited<ReturnType<typeof prepareNetworks>>;

/**
 * Gives the runtime of a node plugins of its own, and the network of the chain. The runtime is restarted by the first `useConfDir`.
 * `cacheDir` has the attachments that the agent makes.
 */
export async function prepareNetworks(node: TestNode, cacheDir = runtimeCache) {
  const { containerd, folder, paths } = node;
  const { bridge, subnet, record } = containerd;
  const network = { name: record.network, bridge, subnet, leases: paths.cniLeases };
  const [binDir, delegateDir] = [join(paths.cni, "bin"), join(paths.cni, "delegate.d")];
  const [hold, held, calls] = [join(folder, "hold"), join(folder, "held"), join(folder, "plugin-calls")];
  const builtinName = `${record.network}-builtin`;
  await mkdir(binDir);
  const config = await readFile(paths.config, "utf8");
  const packaged = /bin_dirs? = \[?"([^"]+)"/.exec(config)?.[1] ?? "";
  for (const name of await readdir(packaged)) await symlink(join(packaged, name), join(binDir, name));
  const recorded = join(folder, "recorded-input");
  const heldPlugins = {
    "held-bridge": join(packaged, "bridge"),
    "held-last": printPrevResult("cat"),
    "recorded-last": printPrevResult(`tee ${recorded}`),
  };
  for (const [name, next] of Object.entries(heldPlugins)) {
    await writeFile(join(binDir, name), heldPlugin({ hold, held, calls }, next));
    await chmod(join(binDir, name), 0o755);
  }

  const putList = (list: string) => writeFile(join(paths.cniConfDir, "10-berth.conflist"), list);
  const berthCni = async (...args: readonly string[]) => {
    const argv = ["cni", ...args, "--conf-dir", delegateDir, "--bin-dir", binDir, "--chain-dir", paths.cniConfDir];
    const ofNode = ["--cache-dir", cacheDir, "--root-dir", paths.agentRoot];
    const { exitCode, all } = await execa(builtBinary, [...argv, ...ofNode], { reject: false, all: true });
    return { exitCode, output: all };
  };
  return {
    delegateDir,
    berthCni,
    /** Whether the static form of the delegate is installed. */
    hasStaticDelegate: async () => (await lstat(join(binDir, DELEGATE_TYPE))).isFile(),
    /** Restarts the container runtime with another folder of networks. */
    async useConfDir(confDir: string) {
      const own = config.replace(packaged, binDir).replace(/conf_dir = "[^"]+"/, `conf_dir = "${confDir}"`);
      await writeFile(paths.config, own);
      await containerd.restart();
    },
    async useChain(...last: readonly "recorded-last"[]) {
      const list = JSON.parse(cniConflist(network));
      list.plugins[0].type = "held-bridge";
      const capabilities = Object.fromEntries(CAPABILITIES.map((name) => [name, true]));
      list.plugins.push(...last.map((type) => ({ type, capabilities })));
      await putList(JSON.stringify(list));
    },
    /** The built-in network, on the same bridge as the chain and with other addresses of its subnet; `last` follows it. */
    async useBuiltin(...last: readonly "held-last"[]) {
      const part = (last: number) => subnet.replace("0/24", String(last));
      const range = { subnet, gateway: part(1), rangeStart: part(128), rangeEnd: part(250) };
      const plugin = {
        type: "berth",
        bridge,
        ranges: [[range]],
        capabilities: { portMappings: true, bandwidth: true },
      };
      const plugins = [plugin, ...last.map((type) => ({ type }))];
      await putList(JSON.stringify({ cniVersion: "1.1.0", name: builtinName, plugins }));
    },
    /** What `recorded-last` has got with the last ADD. */
    recordedInput: async () =>
      JSON.parse(await readFile(recorded, "utf8")) as { readonly runtimeConfig?: Readonly<Record<string, unknown>> },
    async hold(verb: "ADD" | "DEL" = "ADD") {
      await writeFile(hold, verb);
    },
    /** Resolves with the process id of the plugin. */
    async waitUntilHeld(): Promise<number> {
      return await pollUntil("the call of the plugin that is held", 20_000, async () => {
        const text = await readFile(held, "utf8").catch(ifAbsent(""));
        return text.endsWith("\n") ? Number(text) : undefined;
      });
    },
    /** When each call of a plugin that can be held begins and ends, in order. One that is killed does not end. */
    pluginCalls: async () => (await readFile(calls, "utf8")).trimEnd().split("\n"),
    forgetPluginCalls: () => rm(calls),
    async letGo() {
      await rm(hold, { force: true });
      // A plugin that was killed has left it.
      await rm(held, { force: true });
    },
    /** The runtime calls a plugin that does nothing in place of the delegate, as long as `work` runs. */
    async withoutDelegate(work: () => Promise<void>) {
      const [delegate, aside] = [join(binDir, DELEGATE_TYPE), join(folder, DELEGATE_TYPE)];
      await rename(delegate, aside);
      await writeFile(delegate, "#!/bin/sh\n", { mode: 0o755 });
      await work();
      await rename(aside, delegate);
    },
    /** Runs a sandbox in a cgroup below `cgroupParent`, with a call of CRI alone. */
    async runSandbox(name: string, cgroupParent: string) {
      const config = {
        metadata: { name, uid: name, namespace: "default" },
        logDirectory: folder,
        linux: { cgroupParent },
      };
      const request = [RunPodSandboxRequest, RunPodSandboxRequest.fromPartial({ config })] as const;
      await callCri(containerd.endpoint, "RuntimeService/RunPodSandbox", request, RunPodSandboxResponse);
    },
    /** Stops and removes the sandbox of a pod with calls of CRI alone. */
    async removeSandboxOf(name: string) {
      for (const { id: podSandboxId } of (await node.sandboxes()).filter(({ metadata }) => metadata?.name === name)) {
        const call = { podSandboxId };
        await callCri(
          containerd.endpoint,
          "RuntimeService/StopPodSandbox",
          [StopPodSandboxRequest, call],
          StopPodSandboxResponse,
        );
        await callCri(
          containerd.endpoint,
          "RuntimeService/RemovePodSandbox",
          [RemovePodSandboxRequest, call],
          RemovePodSandboxResponse,
        );
      }
    },
    async remains(): Promise<PodNetworkRemains> {
      const { stdout: rules } = await execa("iptables-save", ["-t", "nat"]);
      const addressesIn = async (path: string) =>
        (await readdir(path).catch(ifAbsent([]))).filter((name) => name.startsWith(subnet.replace("0/24", "")));
      return {
        links: await linksOn(bridge),
        leases: await addressesIn(join(paths.cniLeases, network.name)),
        reserved: await addressesIn(join(builtinRecords, builtinName, "addresses")),
        cached: await cachedOf(node, cacheDir),
        rules: rules.split("\n").filter((line) => line.startsWith("-A ") && line.includes(network.name)),
      };
    },
    removeRecords: () => rm(join(builtinRecords, builtinName), { recursive: true, force: true }),
  };
}

interface HeldFiles {
  readonly hold: string;
  readonly held: string;
  readonly calls: string;
}

const heldPlugin = ({ hold, held, calls }: HeldFiles, next: string) => `#!/bin/sh
echo begins >> ${calls}
if [ "$(cat ${hold} 2>/dev/null)" = "$CNI_COMMAND" ]; then
  echo $$ > ${held}
  while [ -e ${hold} ]; do sleep 0.02; done
  rm -f ${held}
fi
${next}
code=$?
echo ends >> ${calls}
exit $code
`;

/** The result of the plugin before it is the last field of what a plugin gets. */
const printPrevResult = (read: string) =>
  `if [ "$CNI_COMMAND" = ADD ]; then ${read} | sed 's/.*"prevResult"://; s/}$//'; fi`;

async function linksOn(bridge: string): Promise<readonly string[]> {
  const { stdout } = await execa("ip", ["-json", "link", "show"]);
  const links = JSON.parse(stdout) as readonly { readonly ifname: string; readonly master?: string }[];
  return links.filter(({ master }) => master === bridge).map(({ ifname }) => ifname);
}

/** The files of both caches for this node: those of its networks, and those of the delegate, whose list has a folder of this node. */
async function cachedOf({ containerd, folder }: TestNode, cacheDir: string): Promise<readonly string[]> {
  const folders = [...new Set([runtimeCache, cacheDir])].map((dir) => join(dir, "results"));
  const listed = await Promise.all(
    folders.map(async (dir) =>
      (await readdir(dir).catch(ifAbsent([]))).map((name) => ({ name, path: join(dir, name) })),
    ),
  );
  const files = listed.flat();
  const ofDelegate = files.filter(({ name }) => name.startsWith("berth-delegate-"));
  const texts = await Promise.all(ofDelegate.map(({ path }) => readFile(path, "utf8").catch(ifAbsent(""))));
  const isOwn = (text: string) => {
    const config = /"config":"([^"]*)"/.exec(text)?.[1] ?? "";
    return Buffer.from(config, "base64").toString().includes(folder);
  };
  return [
    ...files.filter(({ name }) => name.startsWith(`${containerd.record.network}-`)),
    ...ofDelegate.filter((_, at) => isOwn(texts[at] ?? "")),
  ].map(({ name }) => name);
}
