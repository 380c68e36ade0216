import { parseArgs } from "node:util";
import type { PodListing } from "../agent/serve/local/pod-list.ts";
import { askAgent, leaveQuietly, socketBelow, whyNot } from "./local-agent.ts";
import { podTable } from "./pod-table.ts";

const usage = `berth pods [-n NAMESPACE] [-o json] [--watch] [--root-dir DIR]

Shows the pods of the agent that runs on this machine, with the time each step of their latest start took, in milliseconds.

  -n, --namespace NAME  those of this namespace alone (default: those of all)
  -o, --output FORMAT   table (default) or json
  -w, --watch           show them again after every change, until Ctrl-C
      --root-dir DIR    the agent's root directory (default /var/lib/kubelet)
`;

const options = {
  namespace: { type: "string", short: "n" },
  output: { type: "string", short: "o", default: "table" },
  watch: { type: "boolean", short: "w", default: false },
  "root-dir": { type: "string", default: "/var/lib/kubelet" },
  help: { type: "boolean", short: "h", default: false },
} as const;

/** `berth pods`. Exit code 2 for wrong arguments, 1 when no agent answers, or when the one that was watched has ended. */
export async function pods(args: readonly string[]): Promise<number> {
  const read = readArguments(args);
  if (typeof read === "string") {
    process.stderr.write(`berth pods: ${read}\n`);
    return 2;
  }
  if (read.help) {
    process.stdout.write(usage);
    return 0;
  }
  process.stdout.once("error", leaveQuietly);
  const { namespace } = read;
  const isTable = read.output === "table";
  const show = (listing: PodListing) =>
    isTable ? podTable(listing, Date.now(), namespace) : `${JSON.stringify(listing)}\n`;
  const socket = socketBelow(read["root-dir"]);
  try {
    const answer = await askAgent(socket, `/pods${read.watch ? "?watch" : ""}`);
    if (!answer.ok) throw new Error(`it answered ${answer.status}`);
    if (!read.watch) {
      process.stdout.write(show(ofNamespace((await answer.json()) as PodListing, namespace)));
      return 0;
    }
    // On a terminal each takes the place of the one before.
    const clear = isTable && process.stdout.isTTY ? "\u001b[H\u001b[2J" : "";
    for await (const listing of listingsOf(answer, namespace)) process.stdout.write(clear + show(listing));
    process.stderr.write("berth pods: the agent has ended\n");
    return 1;
  } catch (error) {
    process.stderr.write(`berth pods: no agent answers on ${socket}: ${whyNot(error)}\n`);
    return 1;
  }
}

function readArguments(args: readonly string[]) {
  try {
    const { values } = parseArgs({ args: [...args], options });
    // `-n=shop`, as kubectl takes it.
    const namespace = values.namespace?.replace(/^=/, "");
    if (namespace === "") return "-n takes the name of a namespace, found nothing";
    if (!["table", "json"].includes(values.output)) return `-o takes table or json, found ${values.output}`;
    return { ...values, namespace };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The same with the pods of one namespace alone. Whose pod a refused manifest would have been is not known: it stays. */
function ofNamespace(listing: PodListing, namespace: string | undefined): PodListing {
  if (namespace === undefined) return listing;
  return { ...listing, pods: listing.pods.filter((pod) => pod.namespace === namespace) };
}

/** One listing after the other, until the agent ends. What changes in other namespaces is no change. */
async function* listingsOf(answer: Response, namespace: string | undefined): AsyncGenerator<PodListing> {
  let before = "";
  for await (const line of linesOf(answer)) {
    const listing = ofNamespace(JSON.parse(line) as PodListing, namespace);
    const text = namespace === undefined ? "" : JSON.stringify(listing);
    if (namespace === undefined || text !== before) yield listing;
    before = text;
  }
}

/** The whole lines of an answer, to its end: one that breaks off has ended too. */
async function* linesOf(answer: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for await (const chunk of answer.body ?? []) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } catch {
    // An agent does not end an answer: however it breaks off, nobody is there to go on with it.
  }
}
