// containerd executes a list with libcni, and the delegate executes the same list as the agent does. Both leave the same interfaces,
// addresses, routes and rules, in the pod and on the node.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import {
  PodSandboxStatusRequest,
  PodSandboxStatusResponse,
  Protocol,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
} from "../../proto/cri/gen/api.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { readNetworkView } from "../contract/network-view.ts";
import { inNetworkNamespace } from "../contract/own-namespace.ts";
import { type NetworkNode, prepareNetworks } from "./network-node.ts";
import { startNodeWithoutAgent, type TestNode } from "./node.ts";
import { downloadVersions, versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

let node: TestNode;
let networks: NetworkNode;

/** Both families, masquerade and host ports: what the four usual plugins make. */
async function putList() {
  const { bridge, subnet, record } = node.containerd;
  const dataDir = node.paths.cniLeases;
  const ranges = [[{ subnet }], [{ subnet: "fd00:223::/64" }]];
  const ipam = { type: "host-local", dataDir, ranges, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] };
  const plugins = [
    { type: "bridge", bridge, isGateway: true, ipMasq: true, hairpinMode: true, mtu: 1400, ipam },
    { type: "portmap", capabilities: { portMappings: true }, snat: true },
  ];
  const list = { cniVersion: "1.0.0", name: record.network, plugins };
  await writeFile(join(node.paths.cniConfDir, "10-berth.conflist"), JSON.stringify(list));
}

/** Runs a sandbox with two host ports, and resolves with its id. */
async function runSandbox(): Promise<string> {
  const portMappings = [
    { protocol: Protocol.TCP, containerPort: 80, hostPort: 8080, hostIp: "" },
    { protocol: Protocol.UDP, containerPort: 53, hostPort: 5353, hostIp: "" },
  ];
  const metadata = { name: "web", uid: "web", namespace: "default", attempt: 0 };
  const config = { metadata, hostname: "web", logDirectory: node.folder, portMappings, linux: {} };
  const request = [RunPodSandboxRequest, RunPodSandboxRequest.fromPartial({ config })] as const;
  const { endpoint } = node.containerd;
  return (await callCri(endpoint, "RuntimeService/RunPodSandbox", request, RunPodSandboxResponse)).podSandboxId;
}

/** The path of the network namespace of a sandbox. */
async function namespaceOf(podSandboxId: string): Promise<string> {
  const call = PodSandboxStatusRequest.fromPartial({ podSandboxId, verbose: true });
  const request = [PodSandboxStatusRequest, call] as const;
  const { endpoint } = node.containerd;
  const { info } = await callCri(endpoint, "RuntimeService/PodSandboxStatus", request, PodSandboxStatusResponse);
  const path = /"type":\s*"network",\s*"path":\s*"([^"]+)"/.exec(info["info"] ?? "")?.[1];
  if (path === undefined) throw new Error(`the sandbox ${podSandboxId} names no network namespace`);
  return path;
}

/** Without the ids of sandboxes, and the hashes of them by whose order iptables-save prints the chains. */
function withoutIds(lines: readonly string[]): string {
  const text = lines.map((line) => `${line}\n`).join("");
  const same = text.replaceAll(/[0-9a-f]{64}/g, "ID").replaceAll(/\b(CNI-(?:DN-|SN-)?)[0-9a-f]{16,}/g, "$1HASH");
  const chainOf = (line: string) => /^(:|-A )\S+/.exec(line)?.[0] ?? "";
  const sorted = (lines: readonly string[]) =>
    lines.toSorted((one, other) => chainOf(one).localeCompare(chainOf(other))).join("\n");
  return same.replaceAll(/(?:^(?::|-A ).*\n)+/gm, (table) => `${sorted(table.trimEnd().split("\n"))}\n`);
}

/** Runs a sandbox and removes it. Returns its network, that of the node meanwhile and afterwards, and the leases and cache entries that are left. */
async function runAndRemovePod() {
  const id = await runSandbox();
  const pod = withoutIds(await readNetworkView("nsenter", `--net=${await namespaceOf(id)}`));
  const whileRunning = withoutIds(await readNetworkView());
  await networks.removeSandboxOf("web");
  const afterwards = withoutIds(await readNetworkView());
  const { leases, cached } = await networks.remains();
  // The next pod gets the first address again, on a bridge that is made again.
  await execa("ip", ["link", "delete", node.containerd.bridge]);
  await rm(join(node.paths.cniLeases, node.containerd.record.network), { recursive: true });
  return { pod, whileRunning, afterwards, leases, cached };
}

const registerTests = () => {
  describe.each(versionsUnderTest)("containerd %s", (version) => {
    beforeAll(async () => {
      await execa("ip", ["link", "set", "lo", "up"]);
      // The kernel makes the routes of an IPv6 address when it has checked it for duplicates.
      await writeFile("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
      node = await startNodeWithoutAgent({ version });
      networks = await prepareNetworks(node);
      await putList();
    });
    afterAll(() => node.tearDown());

    test("leaves the same interfaces, addresses, routes and rules", async () => {
      await networks.useConfDir(node.paths.cniConfDir);
      const ofRuntime = await runAndRemovePod();
      const text = ofRuntime.pod + ofRuntime.whileRunning;
      for (const part of [/eth0/, /fd00:223::2/, /--dport 8080/, /--dport 5353/, /MASQUERADE/])
        expect(text).toMatch(part);
      expect(ofRuntime).toMatchObject({ leases: [], cached: [] });
      expect(await networks.berthCni("install")).toMatchObject({ exitCode: 0 });
      await networks.useConfDir(networks.delegateDir);
      expect(await runAndRemovePod()).toEqual(ofRuntime);
    });
  });
};

inNetworkNamespace(
  import.meta.path,
  "a list executed by containerd and by the delegate",
  registerTests,
  downloadVersions,
);
