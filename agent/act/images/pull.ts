import { createHash } from "node:crypto";
import { type CriCode, CriError, formatRpcError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import type { Files } from "../../../host/fs/files.ts";
import { AuthConfig } from "../../../proto/cri/gen/api.ts";
import type { ImagePullCredentials } from "../../../proto/kubelet/image-records.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { imageOf, imageUses } from "../../decide/container/image.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import type { RegistryCredential } from "../../translate/docker-config-format.ts";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { credentialsFor } from "../../translate/registry-credentials.ts";
import { FIRST_SANDBOX, sandboxConfig } from "../../translate/sandbox-config.ts";
import { credentialHash } from "./credential-hash.ts";
import type { CredentialProviders } from "./credential-providers.ts";
import { type DockerConfigFiles, readDockerConfigs } from "./docker-config.ts";
import type { ImageRecords } from "./image-records.ts";
import type { PullCoalescer } from "./pull-coalescer.ts";

export interface PullDeps {
  readonly runtime: Pick<Runtime, "pullImage">;
  readonly pulls: PullCoalescer;
  readonly machine: Pick<Files, "read">;
  readonly dockerConfigFiles: DockerConfigFiles;
  /** Undefined where the node has none. */
  readonly providers: Pick<CredentialProviders, "getCredentials"> | undefined;
  readonly facts: () => NodeFacts;
  /** Undefined where pods may use any image that is on the node. */
  readonly records: Pick<ImageRecords, "recordIntent" | "recordPulled" | "recordFailed"> | undefined;
}

export interface PullInput {
  readonly pod: Pod;
  readonly observed: Pick<ObservedPod, "sandboxes">;
  readonly image: string;
  /** Called when the pull leaves the queue. */
  readonly onStarted: () => void;
}

/**
 * Pulls an image for a pod. Tries each matching credential until one works; without any, pulls anonymously. Pods with
 * the same credentials share one pull. Resolves with the image's reference. Rejects with `CriError`, `TranslateError`,
 * `PullRateError`, `FilesError` if the intent cannot be recorded, or the signal's reason.
 */
export async function pullImage(deps: PullDeps, input: PullInput, signal: AbortSignal): Promise<string> {
  const { runtime, pulls, machine, dockerConfigFiles, providers, facts, records } = deps;
  const { pod, observed, image, onStarted } = input;
  const node = facts();
  const [sandbox = FIRST_SANDBOX] = observed.sandboxes;
  const config = sandboxConfig(pod, sandbox, node);
  const nodeCredentials = await readDockerConfigs(machine, dockerConfigFiles);
  const pluginCredentials = (await providers?.getCredentials(pod, image, signal)) ?? [];
  const credentials = credentialsFor(pod, image, node.cluster?.referencedObjects, nodeCredentials, pluginCredentials);
  const requireFresh = allContainers(pod.spec)
    .flatMap((container) => imageUses(pod, container))
    .some((use) => use.imagePullPolicy === "Always" && imageOf(use) === image);
  const { annotations = {} } = pod.metadata;
  const pull = (pullSignal: AbortSignal) =>
    withRecord(records, image, () =>
      pullWithCredentials(
        credentials,
        (auth) => runtime.pullImage(image, auth, config, { signal: pullSignal, annotations }),
        pullSignal,
      ),
    );
  return await pulls.pull({ image, fingerprint: fingerprintOf(credentials), requireFresh, pull, onStarted }, signal);
}

/** Pods with the same fingerprint may share a pull. */
function fingerprintOf(credentials: readonly RegistryCredential[]): string {
  if (credentials.length === 0) return "";
  const pairs = credentials.map(({ username, password }) => [username, password]);
  return createHash("sha256").update(JSON.stringify(pairs)).digest("hex");
}

interface PulledImage {
  readonly imageRef: string;
  /** The credential that worked; undefined: the pull was anonymous. */
  readonly credential: RegistryCredential | undefined;
}

/** Records the intent before the pull and its result after it. */
async function withRecord(
  records: PullDeps["records"],
  image: string,
  pull: () => Promise<PulledImage>,
): Promise<string> {
  if (records === undefined) return (await pull()).imageRef;
  await records.recordIntent(image);
  try {
    const { imageRef, credential } = await pull();
    await records.recordPulled(image, imageRef, credentialsOf(credential));
    return imageRef;
  } catch (error) {
    await records.recordFailed(image, isRejection(error));
    throw error;
  }
}

/** An image pulled anonymously or with the node's own credentials is accessible to all pods of the node. */
function credentialsOf(credential: RegistryCredential | undefined): ImagePullCredentials {
  if (credential?.owner === undefined) return { nodePodsAccessible: true };
  const { kind, ...owner } = credential.owner;
  if (kind === "serviceAccount") return { kubernetesServiceAccounts: [owner] };
  return { kubernetesSecrets: [{ ...owner, credentialHash: credentialHash(credential) }] };
}

/** Tries the credentials one after the other: the registry may accept a later one. */
async function pullWithCredentials(
  credentials: readonly RegistryCredential[],
  pull: (auth: AuthConfig | undefined) => Promise<string>,
  aborted: AbortSignal,
): Promise<PulledImage> {
  if (credentials.length === 0) return { imageRef: await pull(undefined), credential: undefined };
  const failures: CriError[] = [];
  for (const credential of credentials)
    try {
      const { username, password } = credential;
      return { imageRef: await pull(AuthConfig.fromPartial({ username, password })), credential };
    } catch (error) {
      if (aborted.aborted || !(error instanceof CriError)) throw error;
      failures.push(error);
    }
  throw aggregate(failures);
}

/** Whether the runtime itself reported the failure, for every credential. Otherwise the pull's result is unknown. */
function isRejection(error: unknown): boolean {
  if (!(error instanceof CriError) || UNKNOWN_RESULT_CODES.has(error.code)) return false;
  return !(error.cause instanceof CriError) || isRejection(error.cause);
}

/** The runtime also returns DEADLINE_EXCEEDED for a registry that does not respond. */
const UNKNOWN_RESULT_CODES: ReadonlySet<CriCode> = new Set(["UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"]);

/** Like the kubelet's aggregate error: each message once, in brackets if there are several. */
function aggregate(failures: readonly CriError[]): CriError | undefined {
  const messages = new Set(failures.map((error) => (error.code === "UNKNOWN" ? error.details : formatRpcError(error))));
  if (messages.size <= 1) return failures[0];
  const cause = failures.find((error) => !isRejection(error));
  return new CriError("UNKNOWN", "PullImage", `[${[...messages].join(", ")}]`, cause && { cause });
}
