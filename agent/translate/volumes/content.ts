import { decodeBase64 } from "../../../proto/base64.ts";
import { quoteGo } from "../../../proto/go-quote.ts";
import {
  noPodCertificate,
  type PodCertificateReference,
  podCertificateKey,
  TRUST_BUNDLES_UNREAD,
  trustAnchorKey,
  volumePodCertificates,
} from "../../../proto/kubernetes/certificates.ts";
import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type {
  ClusterTrustBundleProjection,
  DownwardAPIVolumeFile,
  KeyToPath,
  Pod,
  ServiceAccountTokenProjection,
  Volume,
  VolumeProjection,
} from "../../../proto/kubernetes/gen/types.ts";
import { type Reference, type ReferencedObject, referenceOf } from "../../../proto/kubernetes/references.ts";
import { tokenKey, tokenReferenceOf } from "../../../proto/kubernetes/token-references.ts";
import { metadataFieldValue, ownValue, resourceFieldValue } from "../downward-api.ts";
import type { NodeFacts } from "../node-facts.ts";
import { findReferencedObject } from "../referenced-object.ts";
import { mountError } from "./mount-error.ts";
import type { VolumeFile } from "./volume-file.ts";

/** What the files of a pod's volumes are made from. */
export interface ContentInput {
  readonly pod: Pod;
  readonly facts: Pick<NodeFacts, "allocatable" | "cluster">;
}

/** The API's default of every `defaultMode`. */
const DEFAULT_MODE = 0o644;

/**
 * The files of a configMap, secret, downwardAPI or projected volume, sorted by path. Throws `TranslateError`, in the
 * kubelet's words, if an object or key is missing that is not optional, or has not been read yet. No message contains a
 * value.
 */
export function contentOf(input: ContentInput, volume: Volume): readonly VolumeFile[] {
  const collected = collect(input, volume);
  if (collected.errors.length > 0) throw mountError(volume, aggregate(collected.errors));
  const group = input.pod.spec.securityContext?.fsGroup;
  return [...collected.files.values()]
    .map((file) => (group === undefined ? file : { ...file, group, mode: file.mode | FS_GROUP_MODE }))
    .toSorted((one, other) => (one.path < other.path ? -1 : 1));
}

/** What the kubelet's ownership pass adds to the mode of a file in a volume that containers can only read. */
const FS_GROUP_MODE = 0o440;

interface Collected {
  readonly files: Map<string, VolumeFile>;
  readonly errors: string[];
}

/** A missing object or key. It ends the source that needs it; other sources of a projected volume are still looked at. */
class SourceError extends Error {
  override readonly name = "SourceError";
}

function collect(input: ContentInput, volume: Volume): Collected {
  const { configMap, secret, downwardAPI } = volume;
  const collected: Collected = { files: new Map(), errors: [] };
  if (configMap !== undefined) addSource(collected, () => objectFiles(input, "configmap", configMap, configMap));
  if (secret !== undefined)
    addSource(collected, () => objectFiles(input, "secret", { ...secret, name: secret.secretName ?? "" }, secret));
  if (downwardAPI !== undefined) addDownwardFiles(collected, input, downwardAPI.items, downwardAPI);
  const certificates = volumePodCertificates(input.pod, volume);
  for (const [index, source] of (volume.projected?.sources ?? []).entries()) {
    const certificate = certificates.find(({ sourceIndex }) => sourceIndex === index);
    addProjection(collected, input, { ...source, certificate }, volume.projected ?? {});
  }
  return collected;
}

interface WithDefaultMode {
  readonly defaultMode?: number;
}

/** A source, and its pod certificate if it has one. */
type Source = VolumeProjection & { readonly certificate: PodCertificateReference | undefined };

/** Of two files with one path the later source wins. */
function addProjection(collected: Collected, input: ContentInput, source: Source, modes: WithDefaultMode) {
  const { configMap, secret, downwardAPI, serviceAccountToken, clusterTrustBundle, ...more } = source;
  const { podCertificate: _, certificate, ...others } = more;
  if (configMap !== undefined) addSource(collected, () => objectFiles(input, "configmap", configMap, modes));
  if (secret !== undefined) addSource(collected, () => objectFiles(input, "secret", secret, modes));
  if (downwardAPI !== undefined) addDownwardFiles(collected, input, downwardAPI.items, modes);
  if (serviceAccountToken !== undefined) addSource(collected, () => [tokenFile(input, serviceAccountToken, modes)]);
  if (clusterTrustBundle !== undefined) addSource(collected, () => [trustAnchorFile(input, clusterTrustBundle, modes)]);
  if (certificate !== undefined) addSource(collected, () => podCertificateFiles(input, certificate, modes));
  for (const kind of Object.keys(others))
    collected.errors.push(`${kind} projections are not supported by this release yet`);
}

function addSource({ files, errors }: Collected, filesOf: () => readonly VolumeFile[]): void {
  try {
    for (const file of filesOf()) files.set(file.path, file);
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    errors.push(error.message);
  }
}

interface ObjectSource {
  readonly name?: string;
  readonly items?: readonly KeyToPath[];
  readonly optional?: boolean;
}

/** The files of a Secret or ConfigMap: all of its keys, or those that `items` names. */
function objectFiles(
  input: ContentInput,
  kind: Reference["kind"],
  source: ObjectSource,
  { defaultMode = DEFAULT_MODE }: WithDefaultMode,
): readonly VolumeFile[] {
  const reference = referenceOf(input.pod, kind, source);
  const data = dataOf(reference, findObject(input, reference, source.optional === true));
  if (source.items === undefined || source.items.length === 0)
    return [...data].map(([path, content]) => ({ path, content, mode: defaultMode }));
  return source.items.flatMap(({ key, path, mode = defaultMode }) => {
    const content = data.get(key);
    if (content !== undefined) return [{ path: withoutEmptyParts(path), content, mode }];
    if (source.optional === true) return [];
    throw new SourceError(
      kind === "secret"
        ? `references non-existent secret key: ${key}`
        : `configmap references non-existent config key: ${key}`,
    );
  });
}

function findObject({ facts }: ContentInput, reference: Reference, isOptional: boolean): ReferencedObject | undefined {
  const { kind, namespace, name } = reference;
  if (facts.cluster === undefined)
    throw new SourceError(`couldn't get ${kind} ${namespace}/${name}: this node has no API server`);
  return findReferencedObject(facts.cluster, reference, isOptional, toSourceError);
}

/** The values by key. */
function dataOf(reference: Reference, object: ReferencedObject | undefined): ReadonlyMap<string, Uint8Array | string> {
  const decoded = (key: string, value: string) => {
    const bytes = decodeBase64(value);
    if (bytes === undefined)
      throw new SourceError(
        `the value of key ${key} of ${reference.kind} ${reference.namespace}/${reference.name} is not base64`,
      );
    return bytes;
  };
  const data = Object.entries(object?.data ?? {}).map(
    ([key, value]) => [key, reference.kind === "secret" ? decoded(key, value) : value] as const,
  );
  const binary = Object.entries(object?.binaryData ?? {}).map(([key, value]) => [key, decoded(key, value)] as const);
  return new Map([...data, ...binary]);
}

function addDownwardFiles(
  collected: Collected,
  input: ContentInput,
  items: readonly DownwardAPIVolumeFile[] = [],
  { defaultMode = DEFAULT_MODE }: WithDefaultMode,
): void {
  for (const { path, mode = defaultMode, fieldRef, resourceFieldRef } of items)
    addSource(collected, () => {
      const content =
        fieldRef === undefined
          ? resourceFieldRef && resourceFieldValue(input, resourceFieldRef, undefined, toSourceError)
          : fieldText(input.pod, fieldRef.fieldPath);
      return [{ path: withoutEmptyParts(path), mode, content: content ?? "" }];
    });
}

const toSourceError = (message: string) => new SourceError(message);

function fieldText(pod: Pod, path: string): string {
  if (path === "metadata.labels") return formatMap(pod.metadata.labels);
  if (path === "metadata.annotations") return formatMap(pod.metadata.annotations);
  const text = metadataFieldValue(pod, path);
  if (text === undefined) throw new SourceError(`unsupported fieldPath: ${path}`);
  return text;
}

/** Sorted lines `key="value"`, in which the value is quoted as a Go string. */
function formatMap(map: Readonly<Record<string, string>> = {}): string {
  return Object.keys(map)
    .toSorted()
    .map((key) => `${key}=${quoteGo(ownValue(map, key) ?? "")}`)
    .join("\n");
}

function tokenFile(
  { pod, facts }: ContentInput,
  source: ServiceAccountTokenProjection,
  modes: WithDefaultMode,
): VolumeFile {
  const reference = tokenReferenceOf(pod, source);
  const known = facts.cluster?.tokens.get(tokenKey(reference));
  if (known === undefined) throw new SourceError("failed to fetch token: timed out waiting for the condition");
  if ("failure" in known) throw new SourceError(known.failure);
  return ownedFile(pod, source.path, known.token, modes);
}

function trustAnchorFile(
  { pod, facts }: ContentInput,
  source: ClusterTrustBundleProjection,
  modes: WithDefaultMode,
): VolumeFile {
  const known = facts.cluster?.trustAnchors?.get(trustAnchorKey(source)) ?? { failure: TRUST_BUNDLES_UNREAD };
  if ("failure" in known) throw new SourceError(known.failure);
  return ownedFile(pod, source.path, known.pem, modes);
}

/** The key and the certificates in one file, or in one each, or in all three. */
function podCertificateFiles(
  { pod, facts }: ContentInput,
  reference: PodCertificateReference,
  modes: WithDefaultMode,
): readonly VolumeFile[] {
  const known = facts.cluster?.podCertificates?.get(podCertificateKey(reference)) ?? {
    failure: noPodCertificate(reference),
  };
  if ("failure" in known) throw new SourceError(known.failure);
  const { privateKey, certificateChain } = known;
  const { credentialBundlePath, keyPath, certificateChainPath } = reference.projection;
  const files = [
    [credentialBundlePath, privateKey + certificateChain],
    [keyPath, privateKey],
    [certificateChainPath, certificateChain],
  ] as const;
  return files.flatMap(([path = "", content]) => (path === "" ? [] : ownedFile(pod, path, content, modes)));
}

/**
 * The file of a token, of trust anchors or of a pod certificate. Its mode is 0600 if all containers run as one user, who
 * then owns it, or if the pod has an fsGroup, which can then read it, too. Otherwise it has the default mode.
 */
function ownedFile(
  pod: Pod,
  path: string,
  content: string,
  { defaultMode = DEFAULT_MODE }: WithDefaultMode,
): VolumeFile {
  const user = commonUserOf(pod);
  const isPrivate = user !== undefined || pod.spec.securityContext?.fsGroup !== undefined;
  return {
    path: withoutEmptyParts(path),
    content,
    mode: isPrivate ? 0o600 : defaultMode,
    ...(user !== undefined && { user }),
  };
}

/** The user that all containers run as; undefined if one does not say its user, or they differ. */
function commonUserOf({ spec }: Pod): number | undefined {
  const users = nonEphemeralContainers(spec).map(
    ({ securityContext }) => securityContext?.runAsUser ?? spec.securityContext?.runAsUser,
  );
  return users.every((user) => user === users[0]) ? users[0] : undefined;
}

/** Without `.` and doubled slashes, so that one file has one path. The API server refuses `..`. */
function withoutEmptyParts(path: string): string {
  return path
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/");
}

/** As Kubernetes joins errors: one is its own message, several are a list without repetitions. */
function aggregate(errors: readonly string[]): string {
  const unique = [...new Set(errors)];
  return unique.length === 1 ? (unique[0] ?? "") : `[${unique.join(", ")}]`;
}
