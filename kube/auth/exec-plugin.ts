import type { Clock, Instant } from "../../host/clock.ts";
import { type Exec, ExecError } from "../../host/exec.ts";
import { parseTime, TimeError } from "../../proto/kubernetes/values/time.ts";
import { KubeError } from "../error.ts";
import { type Credentials, checkToken, type Identity } from "./credentials.ts";
import { readCertificatePair } from "./pem.ts";

export const execApiVersions = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"] as const;

/** An exec credential plugin, as a kubeconfig configures it. */
export interface ExecPlugin {
  readonly apiVersion: (typeof execApiVersions)[number];
  /** A path, or a name that is looked for in PATH. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly installHint: string | undefined;
  /** `spec.cluster` for the plugin, with `provideClusterInfo`. Rejects with `KubeError`. */
  readonly cluster: (() => Promise<Readonly<Record<string, unknown>>>) | undefined;
}

export interface ExecPluginOptions {
  readonly plugin: ExecPlugin;
  readonly exec: Exec;
  /** The agent's environment, which the plugin inherits. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Pick<Clock, "now">;
}

const RUN_TIMEOUT_MS = 60_000;
/** A plugin that fails, or returns credentials that have expired or are rejected, is not run again for each request. */
const MIN_RUN_INTERVAL_MS = 10_000;

interface CachedCredentials {
  readonly identity: Identity;
  readonly expiresAt: Instant | undefined;
}

/** Credentials from an exec plugin, cached until they expire or the server rejects them. */
export function createExecCredentials(options: ExecPluginOptions): Credentials {
  const { clock } = options;
  let cached: CachedCredentials | undefined;
  let failure: unknown;
  let ranAt: Instant | undefined;
  let running: Promise<Identity> | undefined;
  let isRejected = false;

  function hasJustRun(): boolean {
    const agoMs = ranAt === undefined ? -1 : clock.now() - ranAt;
    return agoMs >= 0 && agoMs < MIN_RUN_INTERVAL_MS;
  }
  function isUsable({ expiresAt }: CachedCredentials): boolean {
    const hasExpired = expiresAt !== undefined && clock.now() >= expiresAt;
    return (!isRejected && !hasExpired) || hasJustRun();
  }

  async function run(): Promise<Identity> {
    ranAt = clock.now();
    try {
      cached = await runPlugin(options);
      failure = undefined;
      isRejected = false;
      return cached.identity;
    } catch (error) {
      cached = undefined;
      failure = error;
      throw error;
    }
  }

  return {
    async identity() {
      if (cached !== undefined && isUsable(cached)) return cached.identity;
      if (failure !== undefined && running === undefined && hasJustRun()) throw failure;
      running ??= run().finally(() => {
        running = undefined;
      });
      return await running;
    },
    markRejected() {
      isRejected = true;
    },
  };
}

async function runPlugin({ plugin, exec, environment }: ExecPluginOptions): Promise<CachedCredentials> {
  const { command, args, apiVersion, cluster, installHint } = plugin;
  const spec = { ...(cluster && { cluster: await cluster() }), interactive: false };
  const env = {
    ...definedVariables(environment),
    ...plugin.env,
    KUBERNETES_EXEC_INFO: JSON.stringify({ kind: "ExecCredential", apiVersion, spec }),
  };
  const { stdout } = await exec.run([command, ...args], { env, timeoutMs: RUN_TIMEOUT_MS }).catch((error: unknown) => {
    throw error instanceof ExecError ? toPluginError(command, error, installHint) : error;
  });
  return decodeExecCredential(plugin, stdout);
}

function definedVariables(environment: ExecPluginOptions["environment"]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
}

const MAX_STDERR_CHARS = 300;

/** The error of a failed plugin, with its stderr. Its stdout may hold secrets and is not used. */
function toPluginError(command: string, error: ExecError, installHint: string | undefined): KubeError {
  const stderrText = error.stderr.trim().slice(0, MAX_STDERR_CHARS);
  const hint = error.exitCode === undefined && installHint !== undefined ? `: ${installHint}` : "";
  const exitText =
    error.exitCode === undefined ? "could not be run, or was killed" : `exited with code ${error.exitCode}`;
  const stderrSuffix = stderrText === "" ? "" : `: ${stderrText}`;
  // No cause: the ExecError holds the arguments, which may contain secrets.
  return new KubeError("CREDENTIALS", `the credential plugin ${command} ${exitText}${stderrSuffix}${hint}`);
}

/** Decodes an ExecCredential. Error messages never quote it. */
function decodeExecCredential({ command, apiVersion }: ExecPlugin, stdout: string): CachedCredentials {
  const invalid = (problem: string) => new KubeError("CREDENTIALS", `the credential plugin ${command} ${problem}`);
  let credential: Record<string, unknown>;
  try {
    credential = Object(JSON.parse(stdout)) as Record<string, unknown>;
  } catch {
    throw invalid("printed something that is not JSON");
  }
  if (credential["kind"] !== "ExecCredential" || credential["apiVersion"] !== apiVersion)
    throw invalid(`did not print an ExecCredential of ${apiVersion}`);
  const { token, clientCertificateData, clientKeyData, expirationTimestamp } = Object(credential["status"]) as Record<
    string,
    unknown
  >;
  const texts = [token, clientCertificateData, clientKeyData, expirationTimestamp];
  if (texts.some((one) => one !== undefined && typeof one !== "string"))
    throw invalid("returned a field that is not a string");
  const [secret, cert, key, expires] = texts.map((one) => (typeof one === "string" && one !== "" ? one : undefined));
  const expiresAt = expires === undefined ? undefined : readTime(expires);
  if (expiresAt === null) throw invalid("returned an expirationTimestamp that is not a time");
  if ((cert === undefined) !== (key === undefined))
    throw invalid("returned a certificate without a key, or a key without a certificate");
  if (secret === undefined && cert === undefined) throw invalid("returned neither a token nor a certificate");
  const where = `the output of ${command}`;
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
