import { parseArgs } from "node:util";
import type { PodListing } from "../agent/serve/local/pod-list.ts";
import type { VolumeListing } from "../agent/serve/local/volume-list.ts";
import { describeConnectError, exitOnBrokenPipe, requestAgent, socketPath } from "./local-agent.ts";
import { formatPods } from "./pod-table.ts";
import { formatVolumes } from "./volume-table.ts";

const usage = `berth pods [-n NAMESPACE] [-o json] [--watch | --volumes] [--root-dir DIR]

Shows the pods of the agent on this machine, with the duration of each step of their latest start in milliseconds.

  -n, --namespace NAME  only pods of this namespace (default: all namespaces)
  -o, --output FORMAT   table (default) or json
  -w, --watch           show them again after every change, until Ctrl-C
      --volumes         show their volumes instead, measured now: used, available and capacity, and the limit
      --root-dir DIR    the agent's root directory (default /var/lib/kubelet)
`;

const options = {
  namespace: { type: "string", short: "n" },
  output: { type: "string", short: "o", default: "table" },
  watch: { type: "boolean", short: "w", default: false },
  volumes: { type: "boolean", default: false },
  "root-dir": { type: "string", default: "/var/lib/kubelet" },
  help: { type: "boolean", short: "h", default: false },
} as const;

/** `berth pods`. Exit code 2 for wrong arguments, 1 if no agent responds or the watched agent ends. */
export async function runPods(args: readonly string[]): Promise<number> {
  const parsed = readArguments(args);
  if (typeof parsed === "string") {
    process.stderr.write(`berth pods: ${parsed}\n`);
    return 2;
  }
  if (parsed.help) {
    process.stdout.write(usage);
    return 0;
  }
  process.stdout.once("error", exitOnBrokenPipe);
  const { namespace } = parsed;
  const isTable = parsed.output === "table";
  const showVolumes = (listing: VolumeListing) => (isTable ? formatVolumes(listing) : `${JSON.stringify(listing)}\n`);
  const show = (listing: PodListing) =>
    isTable ? formatPods(listing, Date.now(), namespace) : `${JSON.stringify(listing)}\n`;
  const socket = socketPath(parsed["root-dir"]);
  try {
    const response = await requestAgent(socket, parsed.volumes ? "/volumes" : `/pods${parsed.watch ? "?watch" : ""}`);
    if (!response.ok) {
      process.stderr.write(`berth pods: the agent on ${socket} responded with HTTP ${response.status}\n`);
      return 1;
    }
    if (parsed.volumes) {
      process.stdout.write(showVolumes(filterNamespace((await response.json()) as VolumeListing, namespace)));
      return 0;
    }
    if (!parsed.watch) {
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

function readArguments(args: readonly string[]) {
  try {
    const { values } = parseArgs({ args: [...args], options });
    // kubectl accepts `-n=shop`.
    const namespace = values.namespace?.replace(/^=/, "");
    if (namespace === "") return "-n takes the name of a namespace, found nothing";
    if (!["table", "json"].includes(values.output)) return `-o takes table or json, found ${values.output}`;
    if (values.watch && values.volumes) return "--volumes cannot be watched: it measures the volumes once";
    return { ...values, namespace };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
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
