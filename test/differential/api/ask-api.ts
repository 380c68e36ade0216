import { mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { createApiClient } from "../../fakes/api-client.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";
import { createCertificateAuthority } from "../../upstream/pki.ts";
import { fieldsOf } from "../stats/page-shape.ts";
import { type ApiCase, type ApiUser, apiCases, LOGS_FILE, LOGS_FOLDER, nameOf } from "./api-cases.ts";

/** What is compared of an answer: its status, the headers that clients use, and its body with the machine's values replaced. */
export interface ComparedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | readonly string[];
  /** If the fields of the body are compared: their values as JSON, those of the elements of a list on a line each. */
  readonly values?: Readonly<Record<string, string>>;
  /** The node has not closed the connection, although it was the last request. */
  readonly isOpen?: true;
}

const COMPARED_HEADERS = new Set([
  ...["content-type", "allow", "location", "x-content-type-options", "connection", "content-encoding"],
  ...["content-range", "accept-ranges", "www-authenticate", "upgrade", "sec-websocket-protocol"],
]);
/** A connection without any byte for so long is one that the node leaves open. */
const TIMEOUT_MS = 8_000;

/**
 * Sends every case to the node's API at 127.0.0.1:`port`, one after the other, and returns the answers by the names of the
 * cases. The users get their rights in the cluster first; the folder of /var/log exists meanwhile.
 */
export async function askApi(plane: ControlPlane, port: number): Promise<Readonly<Record<string, ComparedAnswer>>> {
  const clients = await createClients(plane, port);
  const folder = join("/var/log", LOGS_FOLDER);
  await mkdir(join(folder, "empty"), { recursive: true });
  try {
    await writeFile(join(folder, LOGS_FILE), "a line of a log\n");
    await writeFile(join(folder, "a&b <c>.log"), "");
    const answers: [name: string, answer: ComparedAnswer][] = [];
    for (const each of apiCases) answers.push([nameOf(each), await ask(clients[each.user], each)]);
    return Object.fromEntries(answers);
  } finally {
    await rm(folder, { recursive: true });
  }
}

type Client = ReturnType<typeof createApiClient>;

async function createClients(plane: ControlPlane, port: number): Promise<Readonly<Record<ApiUser, Client>>> {
  const role = ["proxy-reader", "--verb=get", "--resource=nodes/proxy"];
  await plane.kubectl(["create", "clusterrole", ...role]);
  await plane.kubectl([
    "create",
    "clusterrolebinding",
    "proxy-reader",
    "--clusterrole=proxy-reader",
    "--user=proxy-reader",
  ]);
  const masters = ["system:masters"];
  const pairOf = (commonName: string, organizations: readonly string[] = []) =>
    plane.authority.issue({ commonName, organizations });
  const foreign = createCertificateAuthority("other").issue({ commonName: "administrator", organizations: masters });
  const client = (credentials: object) => createApiClient({ port, ca: undefined, ...credentials });
  return {
    administrator: client({ pair: pairOf("administrator", masters) }),
    "no credentials": client({}),
    "bad token": client({ token: "guessed" }),
    "foreign certificate": client({ pair: foreign }),
    "no rights": client({ pair: pairOf("no-rights") }),
    "proxy reader": client({ pair: pairOf("proxy-reader") }),
  };
}

/** Sends the request line as it is: a client of HTTP would clean its path. */
async function ask(
  client: Client,
  { method, target, headers = {}, user, body, compares }: ApiCase,
): Promise<ComparedAnswer> {
  const lines = Object.entries({
    host: "node",
    ...(user === "bad token" && { authorization: "Bearer guessed" }),
    connection: "close",
    ...headers,
    ...(body !== "" && { "content-length": String(body.length) }),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = await client.openSocket(`${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
  const { text, isOpen } = await readUntilQuiet(socket);
  const answer = compared(text, compares);
  return isOpen ? { ...answer, isOpen: true } : answer;
}

/** What a connection brings until its end, or until it is quiet for {@link TIMEOUT_MS}. Rejects if it breaks. */
function readUntilQuiet(socket: TLSSocket): Promise<{ readonly text: string; readonly isOpen: boolean }> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const finish = (isOpen: boolean) => {
      socket.destroy();
      resolve({ text: Buffer.concat(chunks).toString(), isOpen });
    };
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("error", reject);
    socket.on("end", () => finish(false));
    socket.on("close", () => finish(false));
    socket.setTimeout(TIMEOUT_MS, () => finish(true));
  });
}

/** Takes an answer of HTTP/1.1 apart. */
function compared(answer: string, compares: ApiCase["compares"]): ComparedAnswer {
  const end = answer.indexOf("\r\n\r\n");
  const [statusLine = "", ...lines] = answer.slice(0, end).split("\r\n");
  const all = lines.map((line) => {
    const [name = "", ...value] = line.split(":");
    return [name.toLowerCase(), value.join(":").trim()] as const;
  });
  const isChunked = all.some(([name, value]) => name === "transfer-encoding" && value === "chunked");
  const sent = answer.slice(end + 4);
  const body = isChunked ? withoutChunks(sent) : sent;
  const headers = all
    .filter(([name]) => COMPARED_HEADERS.has(name))
    .map(([name, value]) => [name, withoutMachine(value)] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  return {
    status: Number(statusLine.split(" ")[1]),
    headers: Object.fromEntries(headers),
    ...bodyOf(body, compares),
  };
}

/** The bodies of the cases that compare text are ASCII: a chunk has as many characters as bytes. */
function withoutChunks(text: string): string {
  const chunks: string[] = [];
  let rest = text;
  for (;;) {
    const start = rest.indexOf("\r\n");
    const length = Number.parseInt(rest.slice(0, start), 16);
    if (!(length > 0)) return chunks.join("");
    chunks.push(rest.slice(start + 2, start + 2 + length));
    rest = rest.slice(start + 2 + length + 2);
  }
}

/** What comes after a name: the kubelet selects one of four delimiters by chance, so that no program reads the page. */
const NAME_OF_STATUSZ = /^(?:Warning|Started|Up|Go version|Binary version|Emulation version|Paths)\b/;

function bodyOf(body: string, compares: ApiCase["compares"]): Pick<ComparedAnswer, "body" | "values"> {
  if (compares === "none") return { body: "" };
  if (compares === "fields" && body.startsWith("{")) {
    const fields = Map.groupBy(fieldsOf(JSON.parse(body)), ([path]) => path);
    const values = [...fields].map(([path, all]) => [
      path,
      all.map(([, each]) => withoutMachine(JSON.stringify(each))).join("\n"),
    ]);
    return { body: [...fields.keys()].toSorted(), values: Object.fromEntries(values) };
  }
  if (compares === "names") return { body: body.split("\n").map((line) => NAME_OF_STATUSZ.exec(line)?.[0] ?? line) };
  return { body: withoutMachine(body) };
}

/** The folder of a bed, which mkdtemp(3) names. */
const FOLDER = new RegExp(`${RegExp.escape(tmpdir())}/berth-\\w+-\\w{6}\\b`, "g");

/** Replaces what differs between two nodes, or between two runs. */
function withoutMachine(text: string): string {
  return text
    .replaceAll(/\b(?!11111111-)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, "UID")
    .replaceAll(/\b[0-9a-f]{64}\b/g, "ID")
    .replaceAll(/\b[0-9a-f]{60}\b/g, "BOUNDARY")
    .replaceAll(/\b(?!2020-)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)/g, "TIME")
    .replaceAll(/\b127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
    .replaceAll(FOLDER, "FOLDER");
}
