// Measures the network of pods in the network namespace of this process: argv has the file of the options and that of the result.
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { connectNodeApi } from "../api/node-api.ts";
import { createPodNames } from "../bench-pod.ts";
import { type ApiClient, connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import type { ComparedNode } from "../cluster/compared-node.ts";
import { startFloor } from "../floor/raw-cri-floor.ts";
import { startMeasuredRuntime } from "../measured-runtime.ts";
import { readCallTotals } from "./call-times.ts";
import type { NetworkProcessOptions } from "./network-bench.ts";
import { builtinNetworkOf, startNetworkNodes } from "./network-nodes.ts";
import { measureNetwork, type NetworkResult, type PerSide } from "./network-rounds.ts";
import { createRunningAgents } from "./running-agents.ts";

/** The node's address, which the kubelet looks for on the interface of the default route. */
const uplink = "10.199.0.2";

async function setUpNamespace(): Promise<void> {
  const commands = [
    ["link", "set", "lo", "up"],
    ["link", "add", "uplink", "type", "bridge"],
    ["address", "add", `${uplink}/24`, "dev", "uplink"],
    ["link", "set", "uplink", "up"],
    ["route", "add", "default", "via", "10.199.0.1"],
  ];
  for (const args of commands) await execa("ip", args);
}

/** The account that the controllers create otherwise; without it a namespace accepts no pods. */
async function createDefaultAccount(api: ApiClient): Promise<void> {
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default" } };
  await api.create("/api/v1/namespaces/default/serviceaccounts", account);
}

async function openCallTotals(nodes: PerSide<ComparedNode>, api: ApiClient, plane: ControlPlane) {
  const open = async ({ nodeName }: ComparedNode) => {
    const { server, close } = await connectNodeApi(nodeName, api, plane);
    // Each page is read on a connection of its own.
    close();
    return () => readCallTotals(server);
  };
  return {
    kubelet: await open(nodes.kubelet),
    chain: await open(nodes.chain),
    delegate: await open(nodes.delegate),
    builtin: await open(nodes.builtin),
  };
}

async function measure(options: NetworkProcessOptions, cleanUps: (() => Promise<unknown>)[]): Promise<NetworkResult> {
  const { folder, version, binary, effort } = options;
  // Controllers would mark nodes whose agent is stopped, and take CPU while others are measured.
  const plane = await startControlPlane({ stateDir: join(folder, "plane"), components: [], print: console.log });
  cleanUps.push(() => plane.stop());
  const api = connectApi(plane);
  cleanUps.push(async () => api.close());
  await createDefaultAccount(api);
  const watch = await watchApi(api);
  const nodes = await startNetworkNodes({ plane, folder, version }, binary, watch, cleanUps);
  const agents = createRunningAgents(nodes, (pid, signal) => process.kill(pid, signal));
  cleanUps.push(async () => agents.all());
  const readCalls = await openCallTotals(nodes, api, plane);
  const { network } = nodes.builtin.runtime.containerd.record;
  cleanUps.push(() => rm(`/run/berth/network/${builtinNetworkOf(network)}`, { recursive: true, force: true }));
  const floorDir = join(folder, "floor");
  const runtime = await startMeasuredRuntime(version, floorDir);
  cleanUps.push(runtime.stop);
  const floor = startFloor(runtime, floorDir);
  cleanUps.push(floor.stop);
  const shared = { api, watch, names: createPodNames(), print: console.log };
  return await measureNetwork({ ...shared, nodes, agents, readCalls, floor }, effort);
}

const [optionsFile = "", resultFile = ""] = process.argv.slice(2);
const cleanUps: (() => Promise<unknown>)[] = [];
const terminated = new Promise<never>((_, reject) => {
  process.once("SIGTERM", () => reject(new Error("ended by SIGTERM")));
});
// During the clean-up nothing awaits it.
terminated.catch(() => undefined);
try {
  const options = JSON.parse(await readFile(optionsFile, "utf8")) as NetworkProcessOptions;
  await setUpNamespace();
  await writeFile(resultFile, JSON.stringify(await Promise.race([measure(options, cleanUps), terminated])));
} finally {
  for (const cleanUp of cleanUps.toReversed()) await cleanUp();
}
process.exit(0);
