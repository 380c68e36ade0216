import { standaloneFlag } from "../agent/config/flags/flag-table.ts";
import type { PodListing } from "../agent/serve/local/pod-list.ts";
import type { VolumeListing } from "../agent/serve/local/volume-list.ts";
import { type Command, givenInvocation, helpFlag, outputFlag, readFlags, rootDirFlag } from "./command.ts";
import { describeConnectError, exitOnBrokenPipe, requestAgent, socketPath } from "./local-agent.ts";
import { formatPods } from "./pod-table.ts";
import { withInvocation } from "./suggested-command.ts";
import { columnsOf } from "./terminal-text.ts";
import { formatVolumes } from "./volume-table.ts";

const command: Command = {
  name: "pods",
  synopsis: "[-n NAMESPACE] [-o json] [--watch | --volumes] [--root-dir DIR]",
  introduction: `Shows the pods of the agent on this machine, with the duration of each step of their latest start in milliseconds.
Without -n it shows those of all namespaces.
`,
  flags: [
    {
      ...standaloneFlag("namespace", "string", "only the pods of this namespace", { must: "the name of a namespace" }),
      shorthand: "n",
    },
    {
      ...standaloneFlag("all-namespaces", "bool", "the pods of all namespaces; overrides -n, as with kubectl"),
      shorthand: "A",
    },
    outputFlag("table", "json"),
    { ...standaloneFlag("watch", "bool", "show them again after every change, until Ctrl-C"), shorthand: "w" },
    standaloneFlag(
      "volumes",
      "bool",
      "show their volumes instead, measured now: used, available and capacity, and the limit",
    ),
    rootDirFlag,
    helpFlag,
  ],
  closing:
    "Exit code 0: the agent has answered. 1: no agent answers, or the watched one has ended. 2: wrong arguments.\n",
};

/** `berth pods`. Exit code 2 for wrong arguments, 1 if no agent responds or the watched agent ends. */
export async function runPods(args: readonly string[]): Promise<number> {
  const given = readFlags(command, args);
  if (typeof given === "number") return given;
  const [isWatch, isOfVolumes] = [given.isSet("watch"), given.isSet("volumes")];
  if (isWatch && isOfVolumes) {
    process.stderr.write("berth pods: --volumes cannot be watched: it measures the volumes once\n");
    return 2;
  }
  process.stdout.once("error", exitOnBrokenPipe);
  const namespace = given.isSet("all-namespaces") ? undefined : given.text("namespace") || undefined;
  const isTable = given.text("output") === "table";
  const podsCommand = withInvocation("berth pods", givenInvocation(given));
  const showVolumes = (listing: VolumeListing) =>
    isTable ? formatVolumes(listing, columnsOf(process.stdout), podsCommand) : `${JSON.stringify(listing)}\n`;
  const show = (listing: PodListing) =>
    isTable
      ? formatPods(listing, { namespace, columns: columnsOf(process.stdout), command: podsCommand })
      : `${JSON.stringify(listing)}\n`;
  const socket = socketPath(given.text("root-dir"));
  try {
    const response = await requestAgent(socket, isOfVolumes ? "/volumes" : `/pods${isWatch ? "?watch" : ""}`);
    if (!response.ok) {
      process.stderr.write(`berth pods: the agent on ${socket} responded with HTTP ${response.status}\n`);
      return 1;
    }
    if (isOfVolumes) {
      process.stdout.write(showVolumes(filterNamespace((await response.json()) as VolumeListing, namespace)));
      return 0;
    }
    if (!isWatch) {
      process.stdout.write(show(filterNamespace((await response.json()) as PodListing, namespace)));
      return 0;
    }
    // On a terminal each table replaces the previous one.
    const clear = isTable && process.stdout.isTTY ? "\u001b[H\u001b[2J" : "";
    for await (const listing of listingsOf(response, namespace)) process.stdout.write(clear + show(listing));
    process.stderr.write("berth pods: the agent has ended\n");
    return 1;
  } catch (error) {
    process.stderr.write(`berth pods: no agent answers on ${socket}: ${describeConnectError(error)}\n`);
    return 1;
  }
}

/** The listing with only the pods of one namespace. Rejected manifests stay, because their namespace is unknown. */
function filterNamespace<L extends { readonly pods: readonly { readonly namespace: string }[] }>(
  listing: L,
  namespace: string | undefined,
): L {
  if (namespace === undefined) return listing;
  return { ...listing, pods: listing.pods.filter((pod) => pod.namespace === namespace) };
}

/** Yields each listing until the agent ends. Skips changes in other namespaces. */
async function* listingsOf(response: Response, namespace: string | undefined): AsyncGenerator<PodListing> {
  let before = "";
  for await (const line of linesOf(response)) {
    const listing = filterNamespace(JSON.parse(line) as PodListing, namespace);
    const text = namespace === undefined ? "" : JSON.stringify(listing);
    if (namespace === undefined || text !== before) yield listing;
    before = text;
  }
}

/** Yields the complete lines of a response until it ends or breaks off. */
async function* linesOf(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for await (const chunk of response.body ?? []) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } catch {
    // An agent never ends a watch, so any broken connection means that it has exited.
  }
}
