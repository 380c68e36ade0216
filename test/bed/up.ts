// The main job on this machine: pods from files on a private containerd, by the compiled agent, without an API server.
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Agent, builtBinary, startAgent } from "./agent.ts";
import { buildIfStale } from "./build.ts";
import { bedPaths } from "./cleanup/bed-record.ts";
import { countLeftovers } from "./cleanup/bed-resources.ts";
import { type Containerd, startContainerd } from "./containerd/containerd.ts";
import { busyboxImage, importImages, pauseImage, webImage } from "./images/images.ts";
import { createScreen, type Screen } from "./live-table.ts";
import { type ManifestFolder, prepareManifests } from "./manifests.ts";
import { unpackSuite } from "./packages.ts";
import { until } from "./poll-until.ts";
import { readSwitches } from "./script-flags.ts";
import { type ComeUp, comeUp, describePods, whyEnded } from "./wait-for-pods.ts";

const usage = `npm run up -- [--fresh] [--once]

Runs the pods of a folder of manifests on a private containerd until Ctrl-C. The first time the folder is filled with examples/.

  --fresh    fill it with examples/ again, and put aside what is in it
  --once     end after the first look instead of waiting for Ctrl-C

The environment variable BERTH_STATE names the folder for manifests, logs and volumes (default: state, in the clone).
`;

const repository = join(import.meta.dirname, "..", "..");
const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => stopping.abort());

/** Stops the way up between two steps, so that nothing is half made when the end begins. */
class Interrupted extends Error {}

interface Running {
  containerd?: Containerd;
  agent?: Agent;
}

async function step<T>(title: string, work: () => Promise<T>, describe: (result: T) => string): Promise<T> {
  if (stopping.signal.aborted) throw new Interrupted();
  const started = performance.now();
  const result = await work();
  say(title, describe(result), performance.now() - started);
  return result;
}

function say(title: string, text: string, durationMs?: number): void {
  const short = durationMs !== undefined && durationMs < 1000;
  const time =
    durationMs === undefined ? "" : short ? `${durationMs.toFixed(0)} ms` : `${(durationMs / 1000).toFixed(1)} s`;
  console.log(`${title.padEnd(12)} ${time.padStart(8)}   ${text}`);
}

/** A path as one may type it here. */
function shown(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short;
}

/** Everything up to the first answer, one step a line. */
async function bringUp(stateDir: string, isFresh: boolean, running: Running): Promise<ComeUp> {
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
    () => `${pauseImage}, ${busyboxImage} and ${webImage} made and imported`,
  );
  const folder = await step("manifests", () => prepareFiles(stateDir, isFresh), describeFolder);
  const agent = await step(
    "agent",
    () => startAgent({ binary: builtBinary, stateDir, endpoint: containerd.endpoint }),
    ({ pid, logFile }) => `process ${pid}; its log is ${shown(logFile)}`,
  );
  running.agent = agent;
  const up = await step("pods", () => allUp(agent, folder), describeComeUp(folder));
  if (folder.unchanged.has("web.yaml")) await request(up);
  return up;
}

/** The agent's files of an earlier run belong to a runtime that is gone; the manifests are the user's. */
async function prepareFiles(stateDir: string, isFresh: boolean): Promise<ManifestFolder> {
  const { manifests, agentRoot, podLogs, agentLog } = bedPaths(stateDir);
  for (const path of [agentRoot, podLogs, agentLog]) await rm(path, { recursive: true, force: true });
  return await prepareManifests(manifests, join(repository, "examples"), isFresh);
}

function describeFolder({ names, isKept, before }: ManifestFolder): string {
  const files = names.join(", ") || "none";
  if (isKept) return `${files}: kept from last time; \`npm run up -- --fresh\` takes the examples again`;
  return `${files} from examples/${before === undefined ? "" : `; those of last time are in ${before}`}`;
}

async function allUp(agent: Agent, folder: ManifestFolder): Promise<ComeUp> {
  const up = await comeUp(agent, folder, stopping.signal);
  if (stopping.signal.aborted) throw new Interrupted();
  return up;
}

const describeComeUp =
  (folder: ManifestFolder) =>
  ({ listing, isSettled }: ComeUp) =>
    `${describePods(listing, folder)}${isSettled ? "" : "; not all have come up"}`;

/** Asks the example for its page. The web server may need a moment after its start. */
async function request({ listing }: ComeUp): Promise<void> {
  const web = listing.pods.find(({ name, ip }) => name === "web-berth" && ip !== "");
  if (web === undefined) return;
  const url = `http://${web.ip}:8080/`;
  const ask = () =>
    fetch(url).then(
      async (answer) => `${answer.status} ${JSON.stringify((await answer.text()).trim())}`,
      () => undefined,
    );
  await step(
    "request",
    () => until(`an answer of ${url}`, 10_000, ask),
    (answer) => `GET ${url} → ${answer}`,
  );
}

/** What one may do now, in words that can be pasted. */
function sayWhatNow(stateDir: string, { containerd }: Running): void {
  const { manifests, agentRoot, podLogs } = bedPaths(stateDir);
  const [ctr = "", ...address] = (containerd?.ctrArgv ?? []).map(shown);
  say("show pods", `${shown(builtBinary)} pods --root-dir ${shown(agentRoot)}`);
  say("read logs", `${shown(podLogs)}/NAMESPACE_POD_UID/CONTAINER/0.log, 1.log …`);
  say("look inside", `${[ctr, ...address].join(" ")} --namespace k8s.io containers list`);
  console.log(`\nEdit, add or remove a file in ${manifests} to change the pods. Ctrl-C ends it all.\n`);
}

/** Shows the pods again whenever one changes, until Ctrl-C. Throws if the agent ends before that. */
async function watch(agent: Agent, screen: Screen): Promise<void> {
  for await (const listing of agent.watch(stopping.signal)) screen.show(listing);
  if (!stopping.signal.aborted) throw await whyEnded(agent);
}

/** Ends agent and runtime and says what was removed. The clean-up does not return before it has seen nothing left. */
async function takeDown({ containerd, agent }: Running): Promise<void> {
  console.log();
  const started = performance.now();
  await agent?.stop();
  const removed = await containerd?.stop();
  if (removed === undefined) return;
  const counts = countLeftovers(removed).join(", ") || "nothing";
  say("clean end", `removed ${counts}; looked again: nothing is left`, performance.now() - started);
}

/** Ctrl-C ends the programs of a step too, and the news of that may come before the signal does. */
async function isInterrupted(error: unknown): Promise<boolean> {
  if (!(error instanceof Interrupted)) await Promise.race([once(stopping.signal, "abort"), pause(100)]);
  return stopping.signal.aborted;
}

async function main(): Promise<number> {
  const switches = readSwitches("up", usage, ["fresh", "once"]);
  if (typeof switches === "number") return switches;
  const stateDir = resolve(process.env["BERTH_STATE"] ?? join(repository, "state"));
  const running: Running = {};
  console.log(`Berth runs pods from files. Manifests, logs and volumes are below ${stateDir}.\n`);
  try {
    const { listing, isSettled } = await bringUp(stateDir, switches.has("fresh"), running);
    const isOnce = switches.has("once");
    console.log();
    if (!isOnce) sayWhatNow(stateDir, running);
    const screen = createScreen(process.stdout);
    screen.show(listing);
    if (isOnce) return isSettled ? 0 : 1;
    if (running.agent !== undefined) await watch(running.agent, screen);
    return 0;
  } catch (error) {
    if (await isInterrupted(error)) return 130;
    console.error(`berth: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  } finally {
    await takeDown(running);
  }
}

process.exitCode = await main();
