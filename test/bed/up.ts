// `npm run up`: runs static pods with the compiled agent on a private containerd, without an API server.
import { once } from "node:events";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { PodListing } from "../../agent/serve/local/pod-list.ts";
import { columnsOf, hangingLines } from "../../cli/terminal-text.ts";
import { type Agent, builtBinary, startAgent } from "./agent.ts";
import { buildIfStale } from "./build.ts";
import { bedPaths } from "./cleanup/bed-record.ts";
import { countBedResources } from "./cleanup/bed-resources.ts";
import { type Containerd, startContainerd } from "./containerd/containerd.ts";
import { busyboxImage, importImages, pauseImage, webImage } from "./images/images.ts";
import { createLiveTable, type LiveTable } from "./live-table.ts";
import { type ManifestFolder, prepareManifests } from "./manifests.ts";
import { unpackPackages } from "./packages.ts";
import { pollUntil } from "./poll-until.ts";
import { readScriptFlags } from "./script-flags.ts";
import { suggestCommands } from "./suggested-commands.ts";
import { agentEndError, describePods, type PodsOutcome, waitForPods } from "./wait-for-pods.ts";

const usage = `npm run up -- [--fresh] [--once]

Runs the pods of a folder of manifests on a private containerd until Ctrl-C. The first time the folder is filled with examples/.
Each run keeps the folder and begins without the logs, volumes and containers of the last one.

  --fresh    fill it with examples/ again, and put its files aside, into manifests.before; state/page stays
  --once     exit as soon as the pods have come up, instead of waiting for Ctrl-C

The environment variable BERTH_STATE names the folder for manifests, logs and volumes (default: state, in the clone).
`;

const repository = join(import.meta.dirname, "..", "..");
const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => stopping.abort());

/** Ends the start between two steps, so that the clean-up finds no half-finished step. */
class Interrupted extends Error {}

interface StartedParts {
  containerd?: Containerd;
  agent?: Agent;
}

async function step<T>(title: string, work: () => Promise<T>, describe: (result: T) => string): Promise<T> {
  if (stopping.signal.aborted) throw new Interrupted();
  const started = performance.now();
  const result = await work();
  printStep(title, describe(result), performance.now() - started);
  return result;
}

function printStep(title: string, text: string, durationMs?: number): void {
  const short = durationMs !== undefined && durationMs < 1000;
  const time =
    durationMs === undefined ? "" : short ? `${durationMs.toFixed(0)} ms` : `${(durationMs / 1000).toFixed(1)} s`;
  const before = `${title.padEnd(12)} ${time.padStart(8)}   `;
  for (const [index, part] of text.split("\n").entries()) {
    const indent = index === 0 ? before : " ".repeat(before.length);
    for (const line of hangingLines(indent, part, columnsOf(process.stdout))) console.log(line);
  }
}

/** A path relative to the working directory, if it is below that. */
function displayPath(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short;
}

/** Starts everything up to the first request to the example; prints one line for each step. */
async function startAll(stateDir: string, isFresh: boolean, running: StartedParts): Promise<PodsOutcome> {
  await step("berth", buildIfStale, (output) => output);
  await step(
    "packages",
    () => unpackPackages("bookworm", console.log),
    ({ root, versions }) => `containerd ${versions["containerd"]} and runc ${versions["runc"]} of Debian in ${root}`,
  );
  const containerd = await step(
    "containerd",
    () => startContainerd({ stateDir, network: "builtin" }),
    ({ version, pid, subnet }) =>
      `release ${version} runs privately as process ${pid}; pods get addresses of ${subnet} in the built-in network`,
  );
  running.containerd = containerd;
  await step(
    "images",
    () => importImages(containerd),
    () => `${pauseImage}, ${busyboxImage} and ${webImage} built and imported`,
  );
  const folder = await step("manifests", () => prepareFiles(stateDir, isFresh), describeFolder);
  const agent = await step(
    "agent",
    () => startAgent({ binary: builtBinary, stateDir, endpoint: containerd.endpoint, flags: networkFlags(stateDir) }),
    ({ pid, logFile }) => `process ${pid}; its log is ${displayPath(logFile)}`,
  );
  running.agent = agent;
  const up = await step("pods", () => waitForAllPods(agent, folder), describeOutcome(folder));
  if (folder.unchanged.has("web.yaml")) await request(up);
  return up;
}

/** The agent executes the network of its pods. */
const networkFlags = (stateDir: string) => [
  "--network-owner=agent",
  "--network-delegate-dir",
  bedPaths(stateDir).cniDelegateDir,
];

/** Removes the agent's files of an earlier run, whose runtime is gone. Keeps the manifests: they belong to the user. */
async function prepareFiles(stateDir: string, isFresh: boolean): Promise<ManifestFolder> {
  const { manifests, agentRoot, podLogs, agentLog } = bedPaths(stateDir);
  for (const path of [agentRoot, podLogs, agentLog]) await rm(path, { recursive: true, force: true });
  await writePage(stateDir);
  return await prepareManifests(manifests, join(repository, "examples"), isFresh);
}

/** The file that the example edited-page serves. */
const pageOf = (stateDir: string) => join(stateDir, "page", "index.html");

/** Creates the page, unless the user has one from an earlier run. */
async function writePage(stateDir: string): Promise<void> {
  const page = pageOf(stateDir);
  await mkdir(dirname(page), { recursive: true });
  await writeFile(page, "Edit this page while its pod runs.\n", { flag: "wx" }).catch((error: unknown) => {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  });
}

function describeFolder({ names, isKept, before }: ManifestFolder): string {
  const files = names.join(", ") || "none";
  if (isKept) return `${files}: kept from last time; \`npm run up -- --fresh\` copies the examples again`;
  return `${files} from examples/${before === undefined ? "" : `; those of last time are in ${before}`}`;
}

async function waitForAllPods(agent: Agent, folder: ManifestFolder): Promise<PodsOutcome> {
  const up = await waitForPods(agent, folder, stopping.signal, (text) => printStep("waiting", text));
  if (stopping.signal.aborted) throw new Interrupted();
  return up;
}

const describeOutcome =
  (folder: ManifestFolder) =>
  ({ listing, isSettled }: PodsOutcome) =>
    `${describePods(listing, folder)}${isSettled ? "" : "; not all have come up"}`;

/** The URL of an example that serves a page; undefined if it has no address. */
function urlOf(example: string, { pods }: PodListing): string | undefined {
  const pod = pods.find(({ name, ip }) => name === `${example}-berth` && ip !== "");
  return pod && `http://${pod.ip}:8080/`;
}

/** Requests the page of the example pod. Retries, since the web server listens a moment after its container starts. */
async function request({ listing }: PodsOutcome): Promise<void> {
  const url = urlOf("web", listing);
  if (url === undefined) return;
  const sendRequest = () =>
    fetch(url).then(
      async (answer) => `${answer.status} ${JSON.stringify((await answer.text()).trim())}`,
      () => undefined,
    );
  await step(
    "request",
    () => pollUntil(`an answer of ${url}`, 10_000, sendRequest),
    (answer) => `GET ${url} → ${answer}`,
  );
}

/** Prints a command for a user to copy, as one line however narrow the terminal is. */
const printCommand = (title: string, command: string) =>
  console.log(`${title.padEnd(12)} ${" ".repeat(8)}   ${command}`);

/** Prints the commands for a user to copy. */
function printCommands(stateDir: string, listing: PodListing): void {
  const { manifests, agentRoot } = bedPaths(stateDir);
  for (const { title, command } of suggestCommands(listing, displayPath(builtBinary), displayPath(agentRoot)))
    printCommand(title, command);
  const url = urlOf("edited-page", listing);
  if (url !== undefined) printStep("edit a file", `${displayPath(pageOf(stateDir))}, which ${url} shows at once`);
  console.log(`\nEdit, add or remove a file in ${manifests} to change the pods. Ctrl-C ends everything.\n`);
}

/** Shows the pods after each change, until Ctrl-C. Throws if the agent ends before. */
async function watch(agent: Agent, table: LiveTable): Promise<void> {
  for await (const listing of agent.watch(stopping.signal)) table.show(listing);
  if (!stopping.signal.aborted) throw await agentEndError(agent);
}

/** Stops agent and runtime and prints what was removed. The clean-up returns only when a check finds nothing left. */
async function stopAll({ containerd, agent }: StartedParts): Promise<void> {
  console.log();
  const started = performance.now();
  await agent?.stop();
  const removed = await containerd?.stop();
  if (removed === undefined) return;
  const counts = countBedResources(removed).join(", ") || "nothing";
  printStep("clean end", `removed ${counts}; checked again: nothing is left`, performance.now() - started);
}

/** Ctrl-C also ends the programs of a step, and a step's error may arrive before the signal does. */
async function isInterrupted(error: unknown): Promise<boolean> {
  if (!(error instanceof Interrupted)) await Promise.race([once(stopping.signal, "abort"), pause(100)]);
  return stopping.signal.aborted;
}

async function main(): Promise<number> {
  const flags = readScriptFlags("up", usage, ["fresh", "once"]);
  if (typeof flags === "number") return flags;
  const stateDir = resolve(process.env["BERTH_STATE"] ?? join(repository, "state"));
  const running: StartedParts = {};
  console.log(`Berth runs pods from files. Manifests, logs and volumes are below ${stateDir}.\n`);
  try {
    const { listing, isSettled } = await startAll(stateDir, flags.has("fresh"), running);
    const isOnce = flags.has("once");
    console.log();
    if (!isOnce) printCommands(stateDir, listing);
    const podsCommand = `${displayPath(builtBinary)} pods --root-dir ${displayPath(bedPaths(stateDir).agentRoot)}`;
    const table = createLiveTable(process.stdout, podsCommand);
    table.show(listing);
    if (isOnce) return isSettled ? 0 : 1;
    if (running.agent !== undefined) await watch(running.agent, table);
    return 0;
  } catch (error) {
    if (await isInterrupted(error)) return 130;
    console.error(`berth: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  } finally {
    await stopAll(running);
  }
}

process.exitCode = await main();
