import type { Runtime } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import { KubeError } from "../../kube/error.ts";
import type { ImagePullServiceAccount } from "../../proto/kubelet/image-records.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import {
  pullSecretReferences,
  type Reference,
  type Referents,
  referenceKey,
} from "../../proto/kubernetes/references.ts";
import { hashOfLogin } from "../act/images/credential-hash.ts";
import {
  CredentialProviderError,
  type CredentialProviders,
  type MakeProviders,
  type PodAccounts,
} from "../act/images/credential-providers.ts";
import { createImageRecords, type ImageRecords } from "../act/images/image-records.ts";
import type { PodDisk } from "../act/volumes/pod-volumes.ts";
import {
  type ImageVerification,
  imageAccess,
  type PodCredentials,
  recordedAccounts,
} from "../decide/admission/image-verification.ts";
import type { ImagePresence } from "../decide/pod/observed.ts";
import type { ObservedPods } from "../observed/pods/pod-cache.ts";
import { hasCode } from "../report/retry.ts";
import { ownLoginsFor } from "../translate/registry-credentials.ts";
import { TranslateError } from "../translate/translate-error.ts";
import type { Cluster } from "./cluster.ts";

export interface ImageAccessParts {
  readonly imageVerification: ImageVerification | undefined;
  readonly providers: MakeProviders | undefined;
  readonly runtime: Pick<Runtime, "imageStatus" | "listImages">;
  readonly disk: Pick<PodDisk, "root">;
  readonly clock: Clock;
  readonly log: Log;
}

/** Who may use the images that are on the node. */
export interface ImageAccess {
  /** Undefined where nothing is written down of images, and each pod may use all of them. */
  readonly records: ImageRecords | undefined;
  /** Undefined where no programs give the node logins for registries. */
  readonly providers: CredentialProviders | undefined;
  /** Each look at a pod holds the images that are here against what is written down of them, and against the pod's own logins. */
  withAccess(observed: ObservedPods): ObservedPods;
}

interface Judging {
  readonly verification: ImageVerification;
  readonly records: ImageRecords;
  readonly knownAccount: ReturnType<typeof createKnownAccount>;
  /** Undefined where the node stands alone. */
  readonly cluster: () => Pick<Cluster, "facts"> | undefined;
}

/**
 * Judges by what `parts.disk` has written down of images; `cluster` tells of Secrets and service accounts, as soon as there is one. Under
 * `parts.imageVerification: undefined` each pod may use all images.
 */
export function createImageAccess(
  parts: ImageAccessParts,
  cluster: () => Pick<Cluster, "facts" | "serviceAccounts"> | undefined,
): ImageAccess {
  const { imageVerification: verification, runtime, disk, clock, log } = parts;
  const providers = parts.providers?.(() => accountsOf(cluster()));
  if (verification === undefined) return { records: undefined, providers, withAccess: (observed) => observed };
  const refOf = async (image: string) => (await runtime.imageStatus(image))?.id;
  const refs = async () => (await runtime.listImages()).map(({ id }) => id);
  const records = createImageRecords({ root: disk.root, refOf, refs, clock, log });
  const knownAccount = createKnownAccount(providers, clock);
  const judging: Judging = { verification, records, knownAccount, cluster };
  const withAccess = (observed: ObservedPods): ObservedPods => ({
    ...observed,
    async observe(uid, desired) {
      const seen = await observed.observe(uid, desired);
      // A pod that ends, or has ended, is made no container of, and waits for nobody's answer.
      if (desired === undefined) return seen;
      if (desired.termination !== undefined) return { ...seen, images: new Map() };
      const judge = async ([image, presence]: readonly [string, ImagePresence]) =>
        [image, await judged(judging, desired.pod, image, presence)] as const;
      const images = await Promise.all([...seen.images].map(judge));
      const isAnyOther = images.some(([image, presence]) => seen.images.get(image) !== presence);
      return isAnyOther ? { ...seen, images: new Map(images) } : seen;
    },
    async audit() {
      // No pod waits for it.
      void records.audit();
      await observed.audit();
    },
  });
  return { records, providers, withAccess };
}

async function judged(
  { verification, records, knownAccount, cluster }: Judging,
  pod: Pod,
  image: string,
  presence: ImagePresence,
): Promise<ImagePresence> {
  if (presence.present !== true) return presence;
  const recorded = await records.of(image, presence.ref);
  const credentials: PodCredentials = {
    ...credentialsOf(pod, image, cluster()?.facts),
    serviceAccount: await knownAccount(pod, image, recordedAccounts(recorded, image)),
  };
  const access = imageAccess(verification, image, recorded, credentials);
  if (access.kind === "unverified") return { ...presence, isUnverified: true };
  if (access.learnt !== undefined) await records.learnt(image, presence.ref, access.learnt);
  return presence;
}

function credentialsOf(pod: Pod, image: string, facts: Cluster["facts"] | undefined) {
  const referents = facts?.facts().referents;
  const answered = facts?.settings().answeredReferences;
  const isUnread = (reference: Reference) =>
    answered?.has(referenceKey(reference)) === true && referents?.has(referenceKey(reference)) !== true;
  return {
    secrets: ownSecrets(pod, image, referents),
    unread: pullSecretReferences(pod).filter(isUnread),
  };
}

/** A look waits so long for the API server to say who an account is: all turns of the pod, restarts too, stand still meanwhile. */
const ACCOUNT_WITHIN_MS = 1_000;

/** Tells the pod's account, where one of its name is written down; it is asked for only then, which costs the API server a request. */
function createKnownAccount(providers: CredentialProviders | undefined, clock: Clock) {
  /** The accounts whose answer is late: no other look waits for it. */
  const late = new Set<string>();

  function ask(pod: Pod, image: string, named: ImagePullServiceAccount, asked: CredentialProviders) {
    return asked.accountFor(pod, image).catch((error: unknown) => {
      if (!(error instanceof CredentialProviderError && error.cause instanceof KubeError)) throw error;
      // As with Secrets: while nobody can say who the account is, its name is enough. One that is gone, or that we may not see, proves nothing.
      return hasCode(error.cause, "UNREACHABLE", "TIMEOUT", "SERVER") ? named : undefined;
    });
  }

  return async (pod: Pod, image: string, recorded: readonly ImagePullServiceAccount[]) => {
    const { namespace = "default" } = pod.metadata;
    const named = recorded.find((one) => one.namespace === namespace && one.name === pod.spec.serviceAccountName);
    if (named === undefined || providers === undefined) return undefined;
    const key = JSON.stringify([namespace, named.name]);
    if (late.has(key)) return named;
    const waited = Promise.withResolvers<ImagePullServiceAccount>();
    const cancel = clock.wakeAt(clock.now() + ACCOUNT_WITHIN_MS, () => {
      late.add(key);
      waited.resolve(named);
    });
    const answered = ask(pod, image, named, providers).finally(() => {
      cancel();
      late.delete(key);
    });
    return await Promise.race([answered, waited.promise]);
  };
}

/** The accounts in the words of those who ask for logins. */
function accountsOf(cluster: Pick<Cluster, "serviceAccounts"> | undefined): PodAccounts | undefined {
  if (cluster === undefined) return undefined;
  const { accountOf, tokenOf } = cluster.serviceAccounts;
  const reworded = (error: unknown): never => {
    if (!(error instanceof KubeError)) throw error;
    throw new CredentialProviderError("NO_ACCOUNT", error.message, { cause: error });
  };
  return {
    accountOf: (...asked) => accountOf(...asked).catch(reworded),
    tokenOf: (...asked) => tokenOf(...asked).catch(reworded),
  };
}

function ownSecrets(pod: Pod, image: string, referents: Referents | undefined): PodCredentials["secrets"] {
  try {
    return ownLoginsFor(pod, image, referents).flatMap(({ owner, ...login }) => {
      if (owner?.kind !== "secret") return [];
      const { uid, namespace, name } = owner;
      return [{ uid, namespace, name, credentialHash: hashOfLogin(login) }];
    });
  } catch (error) {
    if (!(error instanceof TranslateError)) throw error;
    // A Secret that cannot be read proves nothing; the pull that follows says what is wrong with it.
    return [];
  }
}
