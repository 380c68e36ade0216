// The agent owns the network of pods: it executes a chain of plugins for the delegate of the runtime. Here it dies after each call of a
// plugin and each write of the cache as well. The built-in network has no plugin that a scenario could replace: its calls of the kernel and
// its record are synchronous, and `test/contract/builtin-deaths.test.ts` lets its process die within them.
import { expect } from "bun:test";
import { apiScenario } from "./api-scenario.ts";
import { type AgentHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const options = { ownsNetwork: true };

/** What a running pod has: one address, its rules, and the entries of the agent and of the runtime. */
const attached = (pod: string, attempt = 0) => [
  `network: address of ${pod} #${attempt}, ready`,
  `network: entry of berth-delegate in the cache, of ${pod} #${attempt}, ready`,
  `network: entry of pods in the cache, of ${pod} #${attempt}, ready`,
  `network: namespace of ${pod} #${attempt}, ready`,
  `network: portmap of ${pod} #${attempt}, ready`,
];

/** Appends the calls of plugins since the last time, and what is left on the node. */
function logNetwork(harness: AgentHarness): void {
  const calls = harness.network?.plugins.calls.splice(0) ?? [];
  const left = harness.nodeSnapshot().filter((line) => line.startsWith("network: "));
  harness.appendLog([...calls.map((call) => `network: call ${call}`), ...left]);
}

/** The lines of `logNetwork`, without their seconds. */
const networkLines = (log: string) =>
  filterLines(log, /^\d+s network: /)
    .split("\n")
    .map((line) => line.replace(/^\d+s /, ""));

const calls = (...lines: readonly string[]) => lines.map((line) => `network: call ${line}`);
const add = (sandbox: number) => calls(`ADD bridge sandbox-${sandbox}`, `ADD portmap sandbox-${sandbox}`);
const del = (sandbox: number) => calls(`DEL portmap sandbox-${sandbox}`, `DEL bridge sandbox-${sandbox}`);
const gc = calls("GC bridge", "GC portmap");

/** The newest sandbox of a pod. */
function newestSandbox({ runtime }: AgentHarness, pod: string) {
  const found = [...runtime.sandboxes.values()].findLast(({ config }) => config.metadata?.name === `${pod}-node`);
  if (found === undefined) throw new Error(`${pod} has no sandbox`);
  return found;
}

scenario(
  "of two pods each has an address of its own, and one that is removed leaves nothing, with one DEL for its ADD",
  {
    options,
    async run(harness) {
      await harness.setManifests(makePod("web"), makePod("db"));
      await harness.advance("2m");
      logNetwork(harness);
      await harness.setManifests(makePod("web"));
      await harness.advance("6m");
      logNetwork(harness);
    },
  },
  (log) => {
    expect(networkLines(log)).toEqual([
      ...calls("ADD bridge sandbox-1", "ADD bridge sandbox-2"),
      // No ADD begins during GC, so that comes after the first starts.
      ...[...calls("ADD portmap sandbox-1", "ADD portmap sandbox-2"), ...gc],
      ...[...attached("db-node"), ...attached("web-node")].toSorted(),
      ...del(2),
      ...attached("web-node"),
    ]);
  },
);

scenario(
  "a pod whose sandbox dies gets another one with an address, and the old one's is released",
  {
    options,
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("2m");
      logNetwork(harness);
      harness.runtime.exitSandbox(newestSandbox(harness, "web").id);
      await harness.advance("6m");
      logNetwork(harness);
    },
  },
  (log) => {
    expect(networkLines(log)).toEqual([
      ...[...add(1), ...gc, ...attached("web-node")],
      ...[...del(1), ...add(3), ...attached("web-node", 1)],
    ]);
  },
);

scenario(
  "a plugin that fails ADD once costs a pod its first sandbox, of which nothing stays",
  {
    options,
    before: ({ network }) => void network?.plugins.failures.add("ADD portmap"),
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("6m");
      logNetwork(harness);
    },
  },
  (log) => {
    expect(networkLines(log)).toEqual([
      // The executor undoes the ADD, and the runtime calls DEL once more.
      ...[...add(1), ...del(1), ...del(1)],
      ...[...add(2), ...gc, ...attached("web-node")],
    ]);
    expect(log).toContain("portmap: out of order");
  },
);

scenario(
  "a pod that is removed while its network is being set up leaves nothing",
  {
    options,
    before: ({ network }) => {
      if (network !== undefined) network.plugins.lastsMs = 400;
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("1s");
      await harness.setManifests();
      await harness.advance("6m");
      logNetwork(harness);
    },
  },
  (log) => {
    expect(networkLines(log)).toEqual([...add(1), ...del(1), ...gc]);
  },
);

scenario(
  "while the agent is away the delegate tears down a sandbox that another client stops, and the next agent runs it again",
  {
    options,
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("2m");
      harness.kill();
      const { id } = newestSandbox(harness, "web");
      // StopPodSandbox waits until first the container's status and then the sandbox's shows its exit, each up to 3 s late.
      await Promise.all([harness.runtime.stopPodSandbox(id), harness.advance("7s")]);
      logNetwork(harness);
      await harness.start();
      await harness.advance("6m");
      logNetwork(harness);
    },
  },
  (log) => {
    expect(networkLines(log)).toEqual([
      ...[...add(1), ...gc, ...del(1)],
      // The next agent does not know that the delegate has deleted it, and the runtime calls DEL again.
      ...[...del(1), ...add(3), ...gc, ...attached("web-node", 1)],
    ]);
  },
);

scenario(
  "a plugin that outlives an agent killed during ADD ends before DEL begins, and the next sandbox has an address",
  {
    options,
    before: ({ network }) => {
      if (network !== undefined) network.plugins.lastsMs = 10_000;
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      // The pod does not wait for GC, whose plugins take as long.
      await harness.advance("5s");
      harness.kill();
      await harness.start();
      await harness.advance("10m");
      logNetwork(harness);
    },
  },
  (log) => {
    expect(networkLines(log)).toEqual([
      ...[...calls("ADD bridge sandbox-1"), ...del(1)],
      // The runtime refuses a second sandbox during DEL: the pod is in back-off then, and the agent idle.
      ...[...gc, ...add(2), ...attached("web-node")],
    ]);
  },
);

scenario(
  "GC calls DEL for an ADD of a chain before 1.1.0 during which agent and runtime were killed",
  {
    options: { ...options, chainVersion: "1.0.0" },
    before: ({ network }) => {
      if (network !== undefined) network.plugins.lastsMs = 10_000;
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("5s");
      harness.network?.killRuntimeDuringAdd();
      harness.kill();
      harness.runtime.restart();
      await harness.start();
      await harness.advance("10m");
      logNetwork(harness);
    },
  },
  (log) => {
    expect(networkLines(log)).toEqual([
      // The bridge outlives the agent. No ADD waits for GC, which calls DEL alone.
      ...[...calls("ADD bridge sandbox-1"), ...add(2)],
      ...[...del(1), ...attached("web-node")],
    ]);
  },
);

apiScenario(
  "a pod of the API has the address of its sandbox, and leaves nothing when it is deleted",
  async (harness) => {
    await harness.apply("web");
    await harness.apply("db");
    await harness.advance("2m");
    await harness.deletePod("db");
    await harness.advance("6m");
  },
  async ({ node }, harness) => {
    expect(node.filter((line) => line.startsWith("network: "))).toEqual(attached("web"));
    const [web] = harness.podReports().map(({ status }) => status.podIP);
    expect(web).toBe("10.88.0.2");
  },
  { node: options },
);
