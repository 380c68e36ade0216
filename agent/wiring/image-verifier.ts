import type { Runtime } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import { KubeError } from "../../kube/error.ts";
import type { PodUid } from "../../proto/ids.ts";
import {
  type CreateCredentialProviders,
  CredentialProviderError,
  type CredentialProviders,
  type ServiceAccountTokens,
} from "../act/images/credential-providers.ts";
import { createCredentialRecorder } from "../act/images/credential-recorder.ts";
import { createImageRecords, type ImageRecords } from "../act/images/image-records.ts";
import type { NodeDirs } from "../act/volumes/pod-dirs.ts";
import {
  type ImageVerificationSettings,
  imagesToLookUp,
  mayServiceAccountProveAccess,
  mayUseImages,
  type PodCredentials,
  verifyImageAccess,
  withImageAccess,
} from "../decide/admission/image-verification.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import type { ImagePresence, ObservedPod } from "../decide/pod/observed.ts";
import {
  createServiceAccountLookups,
  type ServiceAccountLookups,
  type ServiceAccountLookupsOptions,
} from "../desired/credentials/service-account-lookups.ts";
import type { ServiceAccounts } from "../desired/credentials/service-accounts.ts";
import type { ClusterSync } from "./cluster/cluster.ts";
import { secretCredentialsOf } from "./secret-credentials.ts";

export interface ImageVerifierOptions {
  readonly imageVerification: ImageVerificationSettings | undefined;
  readonly createCredentialProviders: CreateCredentialProviders | undefined;
  readonly runtime: Pick<Runtime, "imageStatus" | "listImages">;
  readonly disk: Pick<NodeDirs, "root">;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Verifies that a pod may use images that are present on the node (KEP-2535, `imagePullCredentialsVerificationPolicy`).
 */
export interface ImageVerifier {
  /** The image pull records; undefined if the feature is off, so that each pod may use every image. */
  readonly records: ImageRecords | undefined;
  /** Undefined if no credential provider plugins are configured. */
  readonly providers: CredentialProviders | undefined;
  /** The observed pod with its present images checked against the pull records and the pod's credentials. */
  withVerification(observed: ObservedPod, desired: DesiredPod | undefined): Promise<ObservedPod>;
  /**
   * The pod was observed: records the Secrets that the verification has found, and looks up the service account that it
   * waits for, in the background.
   */
  onObserved(observed: ObservedPod, desired: DesiredPod | undefined): void;
  /** Nothing is left of the pod. */
  forget(uid: PodUid): void;
  /** Resolves when no record is being written. */
  settled(): Promise<void>;
  /** Ends the lookups under way. */
  stop(): void;
}

interface VerificationDeps {
  readonly verification: ImageVerificationSettings;
  readonly records: ImageRecords;
  readonly lookups: ServiceAccountLookups;
  readonly objects: ClusterSync["objects"] | undefined;
}

/** What the verification needs of the cluster; each is undefined on a standalone node. */
export interface ImageVerifierDeps {
  readonly serviceAccounts: ServiceAccounts | undefined;
  readonly objects: ClusterSync["objects"] | undefined;
}

/**
 * Reads the pull records below `options.disk`. With `options.imageVerification: undefined` each pod may use every
 * image. `onAccountLookedUp` receives the pods whose service account is known now.
 */
export function createImageVerifier(
  options: ImageVerifierOptions,
  { serviceAccounts, objects }: ImageVerifierDeps,
  onAccountLookedUp: (uid: PodUid) => void,
): ImageVerifier {
  const { imageVerification: verification, runtime, disk, clock, log } = options;
  const tokens = serviceAccounts && serviceAccountTokensOf(serviceAccounts);
  const providers = options.createCredentialProviders?.(() => tokens);
  if (verification === undefined) return { ...withoutVerification, providers };
  const refOf = async (image: string) => (await runtime.imageStatus(image))?.id;
  const refs = async () => (await runtime.listImages()).map(({ id }) => id);
  const records = createImageRecords({ root: disk.root, refOf, refs, clock, log });
  const accountFor = accountReaderOf(providers);
  const lookups = createServiceAccountLookups({ accountFor, onResult: onAccountLookedUp, clock });
  const deps: VerificationDeps = { verification, records, lookups, objects };
  const credentials = createCredentialRecorder(records);
  return {
    records,
    providers,
    async withVerification(observed, desired) {
      if (desired === undefined) return observed;
      if (!mayUseImages(desired)) return { ...observed, images: new Map() };
      const verifyImage = async ([image, presence]: readonly [string, ImagePresence]) =>
        [image, await verify(deps, desired, image, presence)] as const;
      const images = await Promise.all([...observed.images].map(verifyImage));
      const hasChanged = images.some(([image, presence]) => observed.images.get(image) !== presence);
      return hasChanged ? { ...observed, images: new Map(images) } : observed;
    },
    onObserved(observed, desired) {
      credentials.record(observed);
      if (desired !== undefined) for (const image of imagesToLookUp(observed)) lookups.lookUp(desired, image);
    },
    forget: lookups.forget,
    settled: credentials.settled,
    stop: lookups.stop,
  };
}

const withoutVerification: Omit<ImageVerifier, "providers"> = {
  records: undefined,
  withVerification: async (observed) => observed,
  onObserved() {},
  forget() {},
  settled: async () => {},
  stop() {},
};

/** The pod's account for an image by the credential provider plugins; rejects with `KubeError`. */
function accountReaderOf(providers: CredentialProviders | undefined): ServiceAccountLookupsOptions["accountFor"] {
  return async (pod, image) => {
    try {
      return await providers?.accountFor(pod, image);
    } catch (error) {
      throw error instanceof CredentialProviderError && error.cause instanceof KubeError ? error.cause : error;
    }
  };
}

/** The service accounts for the credential provider plugins; converts `KubeError` to `CredentialProviderError`. */
function serviceAccountTokensOf({ accountOf, tokenOf }: ServiceAccounts): ServiceAccountTokens {
  const toProviderError = (error: unknown): never => {
    if (!(error instanceof KubeError)) throw error;
    throw new CredentialProviderError("NO_ACCOUNT", error.message, { cause: error });
  };
  return {
    accountOf: (...asked) => accountOf(...asked).catch(toProviderError),
    tokenOf: (...asked) => tokenOf(...asked).catch(toProviderError),
  };
}

async function verify(
  { verification, records, lookups, objects }: VerificationDeps,
  desired: DesiredPod,
  image: string,
  presence: ImagePresence,
): Promise<ImagePresence> {
  if (presence.present !== true) return presence;
  const { pod } = desired;
  const recorded = await records.recordOf(image, presence.ref);
  const credentials: PodCredentials = {
    ...secretCredentialsOf(pod, image, objects),
    serviceAccount: mayServiceAccountProveAccess(pod, image, recorded)
      ? lookups.latest(desired, image)
      : { kind: "none" },
  };
  return withImageAccess(presence, verifyImageAccess(verification, image, recorded, credentials));
}
