// The main job on this machine: pods from examples/ on a private containerd, by the compiled agent, without an API
// server. `--once` ends after the first look instead of waiting for Ctrl-C.
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { PodListing, PodSummary } from "../../agent/serve/pod-list.ts";
import { podTable } from "../../cli/pod-table.ts";
import { type Agent, builtBinary, startAgent } from "./agent.ts";
import { buildIfStale } from "./build.ts";
import { type Containerd, startContainerd } from "./containerd.ts";
import { importImages } from "./images.ts";
import { unpackSuite } from "./packages.ts";
import { bedPaths } from "./record.ts";
import { until } from "./until.ts";

const repository = join(import.meta.dirname, "..", "..");
const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => stopping.abort());

/** Stops the way up between two steps, so that nothing is half made when the end begins. */
class Interrupted extends Error {}

async function step<T>(title: string, work: () => Promise<T>, describe: (result: T) => string): Promise<T> {
  if (stopping.signal.aborted) throw new Interrupted();
  const started = performance.now();
  const result = await work();
  say(title, describe(result), performance.now() - started);
  return result;
}

function say(title: string, text: string, durationMs: number): void {
  const time = durationMs < 1000 ? `${durationMs.toFixed(0)} ms` : `${(durationMs / 1000).toFixed(1)} s`;
  console.log(`${title.padEnd(12)} ${time.padStart(8)}   ${text}`);
}

/** Everything up to the first answer, one step a line. Returns how to stay: show each change until Ctrl-C. */
async function bringUp(
  stateDir: string,
  running: { containerd?: Containerd; agent?: Agent },
): Promise<() => Promise<void>> {
  await step("berth", buildIfStale, (said) => said);
  await step(
    "packages",
    () => unpackSuite("bookworm", console.log),
    ({ root, versions }) => `containerd ${versions["containerd"]} and runc ${versions["runc"]} of Debian in ${root}`,
  );
  const containerd = await step(
    "containerd",
    () => startContainerd({ stateDir }),
    ({ version, pid, subnet }) =>
      `release ${version} runs privately as process ${pid}; pods get addresses of ${subnet}`,
  );
  running.containerd = containerd;
  await step(
    "images",
    () => importImages(containerd),
    () => "berth.test/pause:1, busybox:1 and web:1 made and imported",
  );
  const manifests = await step(
    "manifests",
    () => copyExamples(stateDir),
    (names) => `${names.join(", ")} from examples/`,
  );
  const agent = await step(
    "agent",
    () => startAgent({ binary: builtBinary, stateDir, endpoint: containerd.endpoint }),
    ({ pid, logFile }) => `process ${pid}; its log is ${relative(process.cwd(), logFile)}`,
  );
  running.agent = agent;
  const listing = await step(
    "pods",
    () => settled(agent, manifests.length),
    ({ pods }) => `${pods.length} have come up, and one of them keeps crashing on purpose`,
  );
  console.log(`
${podTable(listing)}`);
  const web = listing.pods.find(({ name }) => name.startsWith("web"));
  if (web === undefined) throw new Error("the pod web is missing");
  const url = `http://${web.ip}:8080/`;
  await step(
    "request",
    () => get(url),
    ({ status, body }) => `GET ${url} → ${status} ${JSON.stringify(body.trim())}`,
  );
  return () => watch(agent, listing);
}

/** The agent's files of an earlier run belong to a runtime that is gone. */
async function copyExamples(stateDir: string): Promise<readonly string[]> {
  const { manifests, agentRoot, podLogs, agentLog } = bedPaths(stateDir);
  for (const path of [manifests, agentRoot, podLogs, agentLog]) await rm(path, { recursive: true, force: true });
  await mkdir(manifests, { recursive: true });
  const names = (await readdir(join(repository, "examples"))).filter((name) => name.endsWith(".yaml")).toSorted();
  for (const name of names) await copyFile(join(repository, "examples", name), join(manifests, name));
  return names;
}

/** What the examples come to; any other pod is to run with all containers ready. */
const expected: Readonly<Record<string, (pod: PodSummary) => boolean>> = {
  crash: ({ reason }) => reason === "CrashLoopBackOff",
  once: ({ phase }) => phase === "Succeeded",
};
const isReady = ({ ready }: PodSummary) => ready.split("/")[0] === ready.split("/")[1];
const isSettled = (pod: PodSummary) => (expected[pod.name.replace(/-berth$/, "")] ?? isReady)(pod);

/** Waits until all pods are what they should come to. */
async function settled(agent: Agent, count: number): Promise<PodListing> {
  await until("the agent to answer", 10_000, async () => {
    if (!agent.isRunning) throw new Error(`the agent has ended; the reason is in ${agent.logFile}`);
    return await agent.pods().catch(() => undefined);
  });
  const patience = AbortSignal.any([stopping.signal, AbortSignal.timeout(60_000)]);
  let last: PodListing = { pods: [] };
  for await (last of agent.watch(patience)) if (last.pods.length === count && last.pods.every(isSettled)) return last;
  if (stopping.signal.aborted) throw new Interrupted();
  throw new Error(`the pods did not come up; the agent's log is ${agent.logFile}\n${podTable(last)}`);
}

/** The web server may need a moment after its start. */
async function get(url: string): Promise<{ readonly status: number; readonly body: string }> {
  return await until(`an answer of ${url}`, 10_000, () =>
    fetch(url).then(
      async (answer) => ({ status: answer.status, body: await answer.text() }),
      () => undefined,
    ),
  );
}

/** Shows the pods again whenever one changes, until Ctrl-C. Throws if the agent ends before that. */
async function watch(agent: Agent, shown: PodListing): Promise<void> {
  let before = stateOf(shown);
  for await (const listing of agent.watch(stopping.signal)) {
    const state = stateOf(listing);
    if (state !== before) console.log(`${new Date().toLocaleTimeString("en-GB")}\n${podTable(listing)}`);
    before = state;
  }
  if (!stopping.signal.aborted) throw new Error(`the agent has ended; the reason is in ${agent.logFile}`);
}

/** What the table shows of the pods, but for their age. */
const stateOf = (listing: PodListing) => podTable(listing, 0);

/** Ends agent and runtime and says what was removed. The clean-up does not return before it has seen nothing left. */
async function takeDown({ containerd, agent }: { containerd?: Containerd; agent?: Agent }): Promise<void> {
  console.log();
  const started = performance.now();
  await agent?.stop();
  const removed = await containerd?.stop();
  if (removed === undefined) return;
  const counts = [
    `${removed.processes.length} processes`,
    `${removed.mounts.length} mounts`,
    `${removed.links.length} interfaces`,
    `${removed.rules.length} rules`,
    `${removed.cgroups.length} cgroups`,
  ];
  say("clean end", `removed ${counts.join(", ")}; looked again: nothing is left`, performance.now() - started);
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { once: { type: "boolean", default: false } } });
  const stateDir = resolve(process.env["BERTH_STATE"] ?? join(repository, "state"));
  const running: { containerd?: Containerd; agent?: Agent } = {};
  console.log(`Berth runs pods from files. Everything it writes is below ${stateDir}.\n`);
  try {
    const stay = await bringUp(stateDir, running);
    if (!values.once) {
      const { manifests } = bedPaths(stateDir);
      console.log(`\nEdit, add or remove a file in ${manifests} to change the pods. Ctrl-C ends it all.\n`);
      await stay();
    }
    return 0;
  } catch (error) {
    if (error instanceof Interrupted) return 130;
    console.error(`berth: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  } finally {
    await takeDown(running);
  }
}

process.exitCode = await main();
