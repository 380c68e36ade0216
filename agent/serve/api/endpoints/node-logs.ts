import type { ServedEntry } from "../../../../host/fs/served-folder.ts";
import { ApiError } from "../api-error.ts";
import { sendEmpty, sendGoError, sendText } from "../api-response.ts";
import { escapeHtml } from "../html.ts";
import type { ApiRequest, ApiResponse, Route } from "../route.ts";
import { isUnchangedSince } from "./file-conditions.ts";
import { journalArguments, type NodeLogQuery, parseNodeLogQuery } from "./node-log-query.ts";
import { sendFile, sendNotModified } from "./served-file.ts";

export interface NodeLogRouteDeps {
  /** Opens what is below `/var/log`, never through a symlink that leads out of it. Rejects with the kernel's codes. */
  readonly openLog: (path: string) => Promise<ServedEntry | undefined>;
  /** Runs journalctl and passes its output to `write`. Rejects if it cannot be run. */
  readonly journal: (
    args: readonly string[],
    write: (bytes: Uint8Array) => Promise<void>,
    signal: AbortSignal,
  ) => Promise<void>;
  /** `enableSystemLogQuery`. */
  readonly allowsQuery: boolean;
}

const QUERY_TIMEOUT_MS = 30_000;

/** `/logs/`: the files of `/var/log`, as Go's FileServer shows them, and the node log query (KEP-2258). */
export function createNodeLogRoutes(deps: NodeLogRouteDeps): readonly Route[] {
  const handle: Route["handle"] = async (request, response) => {
    const path = request.params["path"] ?? "";
    const parsed = deps.allowsQuery ? parseNodeLogQuery(request.query) : { kind: "none" as const };
    switch (parsed.kind) {
      case "none":
        return await sendEntry(deps, path, request, response);
      case "invalid":
        return sendGoError(response, parsed.status, parsed.message);
      case "query": {
        if (path !== "") return sendGoError(response, 406, "path not allowed in query mode");
        const [file] = parsed.query.files;
        if (file === undefined) return await sendServices(deps, parsed.query, request, response);
        return await sendEntry(deps, file.replaceAll("\\", "/"), request, response);
      }
    }
  };
  return [
    { pattern: "/logs/", methods: ["GET"], handle },
    { pattern: "/logs/{path...}", methods: ["GET"], handle },
  ];
}

const NOT_FOUND = "404 page not found";

async function open({ openLog }: NodeLogRouteDeps, path: string): Promise<ServedEntry | undefined> {
  try {
    return await openLog(path);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "EACCES" || code === "EPERM") throw new ApiError(403, "403 Forbidden\n", { cause: error });
    if (["ENOENT", "ENOTDIR", "ELOOP", "ENAMETOOLONG", "EINVAL"].includes(String(code))) return undefined;
    throw error;
  }
}

async function sendEntry(
  deps: NodeLogRouteDeps,
  path: string,
  request: ApiRequest,
  response: ApiResponse,
): Promise<void> {
  // A name with a null byte exists nowhere, and no call of the kernel takes it.
  const entry = path.includes("\0") ? undefined : await open(deps, path);
  if (entry === undefined) return sendGoError(response, 404, NOT_FOUND);
  if (entry.kind === "folder") return sendFolder(entry, request, response);
  const { path: requested } = request;
  try {
    if (requested.endsWith("/") && path !== "" && path.endsWith("/"))
      return sendEmpty(response, 301, { location: `../${lastName(requested.slice(0, -1))}` });
    await sendFile(entry, request, response);
  } finally {
    await entry.close();
  }
}

function sendFolder(
  { entries, modifiedMs }: Extract<ServedEntry, { kind: "folder" }>,
  { path: requested, headers }: ApiRequest,
  response: ApiResponse,
): void {
  const lastModified = { "last-modified": new Date(modifiedMs).toUTCString() };
  if (!requested.endsWith("/")) sendEmpty(response, 301, { location: `${lastName(requested)}/` });
  else if (isUnchangedSince(headers["if-modified-since"], modifiedMs)) sendNotModified(response, lastModified);
  else sendText(response, 200, formatListing(entries), { "content-type": "text/html; charset=utf-8", ...lastModified });
}

const lastName = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/** As Go's `dirList`. */
function formatListing(entries: Extract<ServedEntry, { kind: "folder" }>["entries"]): string {
  const lines = entries.map(({ name, isFolder }) => {
    const shown = isFolder ? `${name}/` : name;
    // A name with a colon would be a scheme: Go writes ./ before it.
    const path = encodeURI(shown).replaceAll("?", "%3F").replaceAll("#", "%23");
    const href = /^[^/]*:/.test(path) ? `./${path}` : path;
    return `<a href="${escapeHtml(href)}">${escapeHtml(shown)}</a>\n`;
  });
  return `<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n${lines.join("")}</pre>\n`;
}

/** The log of services: from the journal where it knows their units, else from a file of `/var/log` of that name. */
async function sendServices(
  deps: NodeLogRouteDeps,
  query: NodeLogQuery,
  request: ApiRequest,
  response: ApiResponse,
): Promise<void> {
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(QUERY_TIMEOUT_MS)]);
  response.start(200, { "content-type": "text/plain;charset=UTF-8" });
  const units = await unitsOfJournal(deps, signal);
  const isUnit = (service: string) => units.includes(`${service}.service`);
  const native = query.services.filter(isUnit);
  const others = query.services.filter((service) => !isUnit(service));
  const { services, files, ...options } = query;
  if (native.length > 0)
    await deps.journal(journalArguments(query, native), response.write, signal).catch(async (error: unknown) => {
      if (request.signal.aborted) throw error;
      await response.write("\nerror: journal output not available\n");
    });
  if (others.length > 0 && Object.values(options).some((option) => option !== undefined))
    await response.write(
      `\noptions present and query resolved to log files for [${others.join(" ")}]\ntry without specifying options\n`,
    );
  else for (const service of others) await writeServiceFile(deps, service, response);
  response.end();
}

/** Empty if journalctl cannot be run: then the service may log to a file. */
async function unitsOfJournal({ journal }: NodeLogRouteDeps, signal: AbortSignal): Promise<string> {
  const chunks: Uint8Array[] = [];
  const keep = async (bytes: Uint8Array) => void chunks.push(bytes);
  try {
    await journal(["--field=_SYSTEMD_UNIT"], keep, signal);
  } catch {
    // As the kubelet: without journalctl every service logs to a file.
    return "";
  }
  return Buffer.concat(chunks).toString();
}

async function writeServiceFile(deps: NodeLogRouteDeps, service: string, response: ApiResponse): Promise<void> {
  for (const name of [service, `${service}.log`, `${service}/${service}.log`]) {
    const entry = await open(deps, name);
    if (entry?.kind !== "file") continue;
    try {
      for await (const block of entry.read(0, entry.sizeBytes)) await response.write(block);
    } finally {
      await entry.close();
    }
    return;
  }
  await response.write(`\nlog not found for ${service}\n`);
}
