import { type Exec, ExecError } from "../../host/exec.ts";
import type { Files } from "../../host/fs/files.ts";
import { FilesError } from "../../host/fs/files.ts";
import type { Config } from "../config/config.ts";
import { type IdSpace, idSpaceOf, type Subids } from "../translate/security/user-namespace-ids.ts";
import { failStart, StartError } from "./start-error.ts";

const LARGEST_PASSWD_BYTES = 16 * 1024 * 1024;
const ANSWER_WITHIN_MS = 10_000;

export interface IdSources {
  /** Rooted at `/`. */
  readonly machine: Pick<Files, "readEnd">;
  readonly exec: Exec;
  /** Where programs are looked for. */
  readonly path: string;
}

/**
 * The ids that pods with users of their own get: those that are set aside for a user `kubelet`, where there is one and `getsubids` to ask for
 * them, as with the kubelet. Throws `StartError` where these cannot be used: pods would get ids that somebody has meant for others.
 */
export async function readIdSpace(config: Pick<Config, "idsPerPod" | "node">, sources: IdSources): Promise<IdSpace> {
  const { idsPerPod, node } = config;
  const subids = (await hasKubeletUser(sources.machine)) ? await askForSubids(sources) : undefined;
  const space = idSpaceOf(subids, idsPerPod, node.maxPods);
  if (typeof space !== "string") return space;
  const whose = subids === undefined ? "the node has too few user ids for its pods" : "getsubids kubelet";
  throw new StartError(`${whose}: ${space}`);
}

/**
 * Its absence says that nobody has set ids aside; `getsubids` could not tell that from a directory of users that is away. What cannot be
 * read says nothing. The comments of users need not be UTF-8.
 */
async function hasKubeletUser(machine: Pick<Files, "readEnd">): Promise<boolean> {
  const users = await machine.readEnd("etc/passwd", LARGEST_PASSWD_BYTES).catch((error: unknown) => {
    if (error instanceof FilesError && error.code === "ENOENT") return "";
    return failStart("nobody can tell whether there is a user kubelet", "put that in order")(error);
  });
  return /^kubelet:/m.test(users);
}

async function askForSubids({ exec, path }: IdSources): Promise<Subids | undefined> {
  const ask = async (...args: readonly string[]) =>
    (await exec.run(["getsubids", ...args, "kubelet"], { env: { PATH: path }, timeoutMs: ANSWER_WITHIN_MS })).stdout;
  try {
    return { users: await ask(), groups: await ask("-g") };
  } catch (error) {
    if (!(error instanceof ExecError)) throw error;
    if (isNotInstalled(error)) return undefined;
    const said = error.stderr.trim();
    const why = said === "" ? howItEnded(error) : said;
    throw new StartError(
      `${error.argv.join(" ")} does not tell which ids pods may have: ${why}: set some aside in /etc/subuid and /etc/subgid, or remove the user kubelet`,
      {
        cause: error,
      },
    );
  }
}

function howItEnded({ exitCode, message }: ExecError): string {
  return exitCode === undefined ? message : `it ended with code ${exitCode}`;
}

function isNotInstalled({ cause }: ExecError): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "ENOENT";
}
