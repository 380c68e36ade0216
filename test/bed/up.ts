// The main job on this machine: pods from examples/ on a private containerd, by the compiled agent, without an API
// server. `--once` ends after the first look instead of waiting for Ctrl-C.
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { type Agent, builtBinary, startAgent } from "./agent.ts";
import { buildIfStale } from "./build.ts";
import { type Containerd, startContainerd } from "./containerd.ts";
import { importImages } from "./images.ts";
import { isSettled, type PodRow, podTable } from "./pod-table.ts";
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

async function bringUp(stateDir: string, running: { containerd?: Containerd; agent?: Agent }): Promise<void> {
  await step("berth", buildIfStale, (said) => said);
  const containerd = await step(
    "containerd",
    () => startContainerd({ stateDir, say: console.log }),
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
  const pods = await step(
    "pods",
    () => settled(agent, manifests.length),
    (rows) => `${rows.length} have started`,
  );
  console.log(`\n${podTable(pods)}\n`);
  const web = pods.find(({ name }) => name.startsWith("web"));
  if (web === undefined) throw new Error("the pod web is missing");
  const url = `http://${web.ip}:8080/`;
  await step(
    "request",
    () => get(url),
    ({ status, body }) => `GET ${url} → ${status} ${JSON.stringify(body.trim())}`,
  );
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

/** Waits until every pod runs, has ended, or waits after a crash. */
async function settled(agent: Agent, count: number): Promise<readonly PodRow[]> {
  return await until("the pods to start", 60_000, async () => {
    if (stopping.signal.aborted) throw new Interrupted();
    if (!agent.isRunning) throw new Error(`the agent has ended; the reason is in ${agent.logFile}`);
    // Until the agent listens there is nobody to ask.
    const pods = await agent.pods().catch(() => []);
    return pods.length >= count && pods.every(isSettled) ? pods : undefined;
  });
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
async function watch(agent: Agent): Promise<void> {
  const [program = "", ...args] = agent.podsArgv;
  const { signal: cancelSignal } = stopping;
  const stdio = ["ignore", "inherit", "inherit"] as const;
  await execa(program, [...args, "--watch"], { stdio, cancelSignal, reject: false });
  if (!cancelSignal.aborted) throw new Error(`the agent has ended; the reason is in ${agent.logFile}`);
}

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
    await bringUp(stateDir, running);
    if (!values.once && running.agent !== undefined) {
      console.log(
        `\nEdit, add or remove a file in ${running.agent.manifests} to change the pods. Ctrl-C ends it all.\n`,
      );
      await watch(running.agent);
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
