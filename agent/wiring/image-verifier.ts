import type { Runtime } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import type { CreateCredentialProviders, CredentialProviders } from "../act/images/credential-providers.ts";
import { createImageRecords, type ImageRecords } from "../act/images/image-records.ts";
import type { NodeDirs } from "../act/volumes/pod-dirs.ts";
import {
  credentialsToRecord,
  type ImageVerificationSettings,
  mayUseImages,
  type PodCredentials,
  recordedAccounts,
  verifyImageAccess,
  withImageAccess,
} from "../decide/admission/image-verification.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import type { ImagePresence, ObservedPod } from "../decide/pod/observed.ts";
import type { ServiceAccounts } from "../desired/objects/service-accounts.ts";
import type { ClusterSync } from "./cluster/cluster.ts";
import { createServiceAccountReader, serviceAccountTokensOf } from "./image-service-accounts.ts";
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
  /** The pod was observed: records the Secrets that the verification has found. Never rejects. */
  recordCredentials(observed: ObservedPod): Promise<void> | undefined;
}

interface VerificationDeps {
  readonly verification: ImageVerificationSettings;
  readonly records: ImageRecords;
  readonly currentServiceAccount: ReturnType<typeof createServiceAccountReader>;
  readonly objects: ClusterSync["objects"] | undefined;
}

/** What the verification needs of the cluster; each is undefined on a standalone node. */
export interface ImageVerifierDeps {
  readonly serviceAccounts: ServiceAccounts | undefined;
  readonly objects: ClusterSync["objects"] | undefined;
}

/**
 * Reads the pull records below `options.disk`. With `options.imageVerification: undefined` each pod may use every
 * image.
 */
export function createImageVerifier(
  options: ImageVerifierOptions,
  { serviceAccounts, objects }: ImageVerifierDeps,
): ImageVerifier {
  const { imageVerification: verification, runtime, disk, clock, log } = options;
  const tokens = serviceAccounts && serviceAccountTokensOf(serviceAccounts);
  const providers = options.createCredentialProviders?.(() => tokens);
  if (verification === undefined) {
    const withVerification = async (observed: ObservedPod) => observed;
    return { records: undefined, providers, withVerification, recordCredentials: () => undefined };
  }
  const refOf = async (image: string) => (await runtime.imageStatus(image))?.id;
  const refs = async () => (await runtime.listImages()).map(({ id }) => id);
  const records = createImageRecords({ root: disk.root, refOf, refs, clock, log });
  const currentServiceAccount = createServiceAccountReader(providers, clock);
  const deps: VerificationDeps = { verification, records, currentServiceAccount, objects };
  const withVerification: ImageVerifier["withVerification"] = async (observed, desired) => {
    if (desired === undefined) return observed;
    if (!mayUseImages(desired)) return { ...observed, images: new Map() };
    const verifyImage = async ([image, presence]: readonly [string, ImagePresence]) =>
      [image, await verify(deps, desired.pod, image, presence)] as const;
    const images = await Promise.all([...observed.images].map(verifyImage));
    const hasChanged = images.some(([image, presence]) => observed.images.get(image) !== presence);
    return hasChanged ? { ...observed, images: new Map(images) } : observed;
  };
  return {
    records,
    providers,
    withVerification,
    recordCredentials: (observed) => recordCredentials(records, observed),
  };
}

/** Adds the Secrets that have proved access to the pull records, so that they count even if the others go. */
function recordCredentials(records: ImageRecords, observed: ObservedPod): Promise<void> | undefined {
  const writes = credentialsToRecord(observed).map(({ image, ref, secret }) =>
    records.addCredential(image, ref, secret),
  );
  return writes.length === 0 ? undefined : Promise.all(writes).then(() => undefined);
}

async function verify(
  { verification, records, currentServiceAccount, objects }: VerificationDeps,
  pod: Pod,
  image: string,
  presence: ImagePresence,
): Promise<ImagePresence> {
  if (presence.present !== true) return presence;
  const recorded = await records.recordOf(image, presence.ref);
  const credentials: PodCredentials = {
    ...secretCredentialsOf(pod, image, objects),
    ...(await currentServiceAccount(pod, image, recordedAccounts(recorded, image))),
  };
  return withImageAccess(presence, verifyImageAccess(verification, image, recorded, credentials));
}
