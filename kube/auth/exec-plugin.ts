import type { Clock, Instant } from "../../host/clock.ts";
import { type Exec, ExecError } from "../../host/exec.ts";
import { parseTime, TimeError } from "../../proto/kubernetes/time.ts";
import { KubeError } from "../error.ts";
import { type Credentials, checkToken, type Identity } from "./credentials.ts";
import { readCertificatePair } from "./pem.ts";

export const execApiVersions = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"] as const;

/** A program that says who we are, as a kubeconfig names it. */
export interface ExecPlugin {
  readonly apiVersion: (typeof execApiVersions)[number];
  /** A path, or a name that is looked for in PATH. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly installHint: string | undefined;
  /** What the program is told of the cluster, if it is to be told. Rejects with `KubeError`. */
  readonly cluster: (() => Promise<Readonly<Record<string, unknown>>>) | undefined;
}

export interface ExecPluginOptions {
  readonly plugin: ExecPlugin;
  readonly exec: Exec;
  /** Ours, which the program inherits. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Pick<Clock, "now">;
}

const RUN_WITHIN_MS = 60_000;
/** A program that fails, or gives what has expired or is refused, is not run again for each request. */
const RUN_EVERY_MS = 10_000;

interface Given {
  readonly identity: Identity;
  readonly expiresAt: Instant | undefined;
}

/** What a plugin gives is kept until it expires or is refused. */
export function createExecCredentials(options: ExecPluginOptions): Credentials {
  const { clock } = options;
  let given: Given | undefined;
  let failure: unknown;
  let ranAt: Instant | undefined;
  let running: Promise<Identity> | undefined;
  let isRefused = false;

  function ranJustNow(): boolean {
    const agoMs = ranAt === undefined ? -1 : clock.now() - ranAt;
    return agoMs >= 0 && agoMs < RUN_EVERY_MS;
  }
  function isGood({ expiresAt }: Given): boolean {
    const hasExpired = expiresAt !== undefined && clock.now() >= expiresAt;
    return (!isRefused && !hasExpired) || ranJustNow();
  }

  async function run(): Promise<Identity> {
    ranAt = clock.now();
    try {
      given = await ask(options);
      failure = undefined;
      isRefused = false;
      return given.identity;
    } catch (error) {
      given = undefined;
      failure = error;
      throw error;
    }
  }

  return {
    async identity() {
      if (given !== undefined && isGood(given)) return given.identity;
      if (failure !== undefined && running === undefined && ranJustNow()) throw failure;
      running ??= run().finally(() => {
        running = undefined;
      });
      return await running;
    },
    refused() {
      isRefused = true;
    },
  };
}

async function ask({ plugin, exec, environment }: ExecPluginOptions): Promise<Given> {
  const { command, args, apiVersion, cluster, installHint } = plugin;
  const spec = { ...(cluster && { cluster: await cluster() }), interactive: false };
  const env = {
    ...defined(environment),
    ...plugin.env,
    KUBERNETES_EXEC_INFO: JSON.stringify({ kind: "ExecCredential", apiVersion, spec }),
  };
  const { stdout } = await exec.run([command, ...args], { env, timeoutMs: RUN_WITHIN_MS }).catch((error: unknown) => {
    throw error instanceof ExecError ? failed(command, error, installHint) : error;
  });
  return readGiven(plugin, stdout);
}

function defined(environment: ExecPluginOptions["environment"]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
}

const LONGEST_COMPLAINT = 300;

/** What the program says on stderr is meant for people; what it printed on stdout may be a secret, and is not looked at. */
function failed(command: string, error: ExecError, installHint: string | undefined): KubeError {
  const complaint = error.stderr.trim().slice(0, LONGEST_COMPLAINT);
  const hint = error.exitCode === undefined && installHint !== undefined ? `: ${installHint}` : "";
  const why = error.exitCode === undefined ? "could not be run to its end" : `ended with code ${error.exitCode}`;
  const said = complaint === "" ? "" : `: ${complaint}`;
  // The error itself holds the arguments, which may hold secrets.
  return new KubeError("CREDENTIALS", `the credential plugin ${command} ${why}${said}${hint}`);
}

/** Reads an ExecCredential. None of it is ever quoted. */
function readGiven({ command, apiVersion }: ExecPlugin, stdout: string): Given {
  const wrong = (what: string) => new KubeError("CREDENTIALS", `the credential plugin ${command} ${what}`);
  let credential: Record<string, unknown>;
  try {
    credential = Object(JSON.parse(stdout)) as Record<string, unknown>;
  } catch {
    throw wrong("printed something that is not JSON");
  }
  if (credential["kind"] !== "ExecCredential" || credential["apiVersion"] !== apiVersion)
    throw wrong(`printed no ExecCredential of ${apiVersion}`);
  const { token, clientCertificateData, clientKeyData, expirationTimestamp } = Object(credential["status"]) as Record<
    string,
    unknown
  >;
  const texts = [token, clientCertificateData, clientKeyData, expirationTimestamp];
  if (texts.some((one) => one !== undefined && typeof one !== "string")) throw wrong("gave something that is no text");
  const [secret, cert, key, expires] = texts.map((one) => (typeof one === "string" && one !== "" ? one : undefined));
  const expiresAt = expires === undefined ? undefined : readTime(expires);
  if (expiresAt === null) throw wrong("gave an expirationTimestamp that is no time");
  if ((cert === undefined) !== (key === undefined)) throw wrong("gave a certificate without a key, or the reverse");
  if (secret === undefined && cert === undefined) throw wrong("gave neither a token nor a certificate");
  const where = `what ${command} printed`;
  const identity: Identity = {
    ...(secret !== undefined && { token: checkToken(secret, where) }),
    ...(cert !== undefined &&
      key !== undefined && { certificate: readCertificatePair({ text: cert, where }, { text: key, where }) }),
  };
  return { identity, expiresAt };
}

function readTime(text: string): Instant | null {
  try {
    return parseTime(text);
  } catch (error) {
    if (error instanceof TimeError) return null;
    throw error;
  }
}
