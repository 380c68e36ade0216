import { type Exec, ExecError } from "../../host/exec.ts";
import type { Files } from "../../host/fs/files.ts";
import { FilesError } from "../../host/fs/files.ts";
import type { Config } from "../config/config.ts";
import { createIdPool, type IdPool, type Subids } from "../translate/security/user-namespace-ids.ts";
import { StartError, toStartError } from "./start-error.ts";

const MAX_PASSWD_BYTES = 16 * 1024 * 1024;
const GETSUBIDS_TIMEOUT_MS = 10_000;

export interface IdPoolSources {
  /** Rooted at `/`. */
  readonly machine: Pick<Files, "readEnd">;
  readonly exec: Exec;
  /** `PATH`, to find `getsubids`. */
  readonly path: string;
}

/**
 * Reads the user ids for pods with user namespaces. As with the kubelet, these are the subordinate ids of the user
 * `kubelet` if that user and `getsubids` exist, else a default range. Throws `StartError` if they cannot be used: pods
 * would get ids that are reserved for others.
 */
export async function readIdPool(config: Pick<Config, "idsPerPod" | "node">, sources: IdPoolSources): Promise<IdPool> {
  const { idsPerPod, node } = config;
  const subids = (await hasKubeletUser(sources.machine)) ? await runGetsubids(sources) : undefined;
  const pool = createIdPool(subids, idsPerPod, node.maxPods);
  if (typeof pool !== "string") return pool;
  const origin = subids === undefined ? "the node has too few user ids for its pods" : "getsubids kubelet";
  throw new StartError(`${origin}: ${pool}`);
}

/**
 * Without a user `kubelet` no ids are reserved. `getsubids` cannot distinguish that from an unavailable user directory,
 * so /etc/passwd is read. Its comments need not be UTF-8.
 */
async function hasKubeletUser(machine: Pick<Files, "readEnd">): Promise<boolean> {
  const users = await machine.readEnd("etc/passwd", MAX_PASSWD_BYTES).catch((error: unknown) => {
    if (error instanceof FilesError && error.code === "ENOENT") return "";
    return toStartError("cannot find out whether the user kubelet exists", "fix that")(error);
  });
  return /^kubelet:/m.test(users);
}

async function runGetsubids({ exec, path }: IdPoolSources): Promise<Subids | undefined> {
  const ask = async (...args: readonly string[]) =>
    (await exec.run(["getsubids", ...args, "kubelet"], { env: { PATH: path }, timeoutMs: GETSUBIDS_TIMEOUT_MS }))
      .stdout;
  try {
    return { users: await ask(), groups: await ask("-g") };
  } catch (error) {
    if (!(error instanceof ExecError)) throw error;
    if (isNotInstalled(error)) return undefined;
    const output = error.stderr.trim();
    const reason = output === "" ? exitDescription(error) : output;
    throw new StartError(
      `${error.argv.join(" ")} does not return the ids for pods: ${reason}: set some aside in /etc/subuid and /etc/subgid, or remove the user kubelet`,
      {
        cause: error,
      },
    );
  }
}

function exitDescription({ exitCode, message }: ExecError): string {
  return exitCode === undefined ? message : `it ended with code ${exitCode}`;
}

function isNotInstalled({ cause }: ExecError): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "ENOENT";
}
