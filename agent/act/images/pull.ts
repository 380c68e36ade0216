import { createHash } from "node:crypto";
import { asRpcError, type CriCode, CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import type { Files } from "../../../host/fs/files.ts";
import { AuthConfig } from "../../../proto/cri/gen/api.ts";
import type { ImagePullCredentials } from "../../../proto/kubelet/image-records.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { imageOf } from "../../decide/container/image.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { loginsFor, type RegistryLogin } from "../../translate/registry-credentials.ts";
import { sandboxConfig } from "../../translate/sandbox-config.ts";
import { hashOfLogin } from "./credential-hash.ts";
import type { CredentialProviders } from "./credential-providers.ts";
import { type LoginFiles, readNodeLogins } from "./docker-config.ts";
import type { ImageRecords } from "./image-records.ts";
import type { SharedPulls } from "./pull-coalescer.ts";

export interface PullSettings {
  readonly runtime: Pick<Runtime, "pullImage">;
  readonly pulls: SharedPulls;
  readonly machine: Pick<Files, "read">;
  readonly loginFiles: LoginFiles;
  /** Undefined where the node has none. */
  readonly providers: Pick<CredentialProviders, "loginsFor"> | undefined;
  readonly facts: () => NodeFacts;
  /** Undefined where nobody has to show a right to an image that is here. */
  readonly records: Pick<ImageRecords, "begins" | "succeeded" | "failed"> | undefined;
}

export interface PullScene {
  readonly pod: Pod;
  readonly observed: Pick<ObservedPod, "sandboxes">;
  readonly image: string;
  /** Called when the pull has its place. */
  readonly began: () => void;
}

const FIRST_SANDBOX = { attempt: 0, crashes: 0 };

/**
 * Pulls an image for a pod, with each login that may hold for it until one works; without any, as anybody. Shared with the other pods that
 * need it by the same logins. Resolves with its reference; rejects with `CriError` or `TranslateError`.
 */
export async function pullImage(settings: PullSettings, scene: PullScene, signal: AbortSignal): Promise<string> {
  const { runtime, pulls, machine, loginFiles, providers, facts, records } = settings;
  const { pod, observed, image, began } = scene;
  const node = facts();
  const [sandbox = FIRST_SANDBOX] = observed.sandboxes;
  const config = sandboxConfig(pod, sandbox, node);
  const ofNode = await readNodeLogins(machine, loginFiles);
  const provided = (await providers?.loginsFor(pod, image, signal)) ?? [];
  const logins = loginsFor(pod, image, node.cluster?.referents, ofNode, provided);
  const mustBeNew = allContainers(pod.spec).some(
    (each) => each.imagePullPolicy === "Always" && imageOf(each) === image,
  );
  const { annotations = {} } = pod.metadata;
  const pull = (ended: AbortSignal) =>
    recorded(records, image, () =>
      pullWithAny(logins, (auth) => runtime.pullImage(image, auth, config, { signal: ended, annotations }), ended),
    );
  return await pulls.pull({ image, sharedBy: fingerprintOf(logins), mustBeNew, pull, began }, signal);
}

/** Whoever pulls by the same logins may have what the other one pulls. */
function fingerprintOf(logins: readonly RegistryLogin[]): string {
  if (logins.length === 0) return "";
  const words = logins.map(({ username, password }) => [username, password]);
  return createHash("sha256").update(JSON.stringify(words)).digest("hex");
}

interface Pulled {
  readonly imageRef: string;
  /** By which it was let in; undefined: as anybody. */
  readonly login: RegistryLogin | undefined;
}

/** Writes down that the image is being pulled, and then by whose right it was. */
async function recorded(records: PullSettings["records"], image: string, pull: () => Promise<Pulled>): Promise<string> {
  if (records === undefined) return (await pull()).imageRef;
  await records.begins(image);
  try {
    const { imageRef, login } = await pull();
    await records.succeeded(image, imageRef, credentialsOf(login));
    return imageRef;
  } catch (error) {
    await records.failed(image, isRefusal(error));
    throw error;
  }
}

/** What the node has, or nobody needs, each of its pods may use. */
function credentialsOf(login: RegistryLogin | undefined): ImagePullCredentials {
  if (login?.owner === undefined) return { nodePodsAccessible: true };
  const { kind, ...owner } = login.owner;
  if (kind === "serviceAccount") return { kubernetesServiceAccounts: [owner] };
  return { kubernetesSecrets: [{ ...owner, credentialHash: hashOfLogin(login) }] };
}

/** By each login in turn: a registry that one of them does not reach may be reached by the next one. */
async function pullWithAny(
  logins: readonly RegistryLogin[],
  pull: (auth: AuthConfig | undefined) => Promise<string>,
  givenUp: AbortSignal,
): Promise<Pulled> {
  if (logins.length === 0) return { imageRef: await pull(undefined), login: undefined };
  const failures: CriError[] = [];
  for (const login of logins)
    try {
      const { username, password } = login;
      return { imageRef: await pull(AuthConfig.fromPartial({ username, password })), login };
    } catch (error) {
      if (givenUp.aborted || !(error instanceof CriError)) throw error;
      failures.push(error);
    }
  throw together(failures);
}

/** The runtime itself has said no, to each login; of anything else nobody knows how it has ended. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof CriError) || UNHEARD.has(error.code)) return false;
  return !(error.cause instanceof CriError) || isRefusal(error.cause);
}

/** The runtime also answers DEADLINE_EXCEEDED for a registry that does not. */
const UNHEARD: ReadonlySet<CriCode> = new Set(["UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"]);

/** As the kubelet lists them: each once, in brackets where they are several. */
function together(failures: readonly CriError[]): CriError | undefined {
  const words = new Set(failures.map((error) => (error.code === "UNKNOWN" ? error.details : asRpcError(error))));
  if (words.size <= 1) return failures[0];
  const cause = failures.find((error) => !isRefusal(error));
  return new CriError("UNKNOWN", "PullImage", `[${[...words].join(", ")}]`, cause && { cause });
}
