import { goJson } from "../go-json.ts";
import { isObject } from "../is-object.ts";

/*
 * The kubelet's records of image pulls below `image_manager` in its root directory, byte for byte: Berth and the
 * kubelet can take over a node from each other and continue with the same records.
 */

/** An image of this node, and the credentials that it was pulled with. */
export interface ImagePulledRecord {
  readonly lastUpdatedTime: string;
  /** The runtime's reference to the image. */
  readonly imageRef: string;
  /** By the image name in the pod spec, without tag and digest. */
  readonly credentialMapping: Readonly<Record<string, ImagePullCredentials>>;
}

/**
 * The credentials that an image was pulled with. When all fields are absent, every pod must verify its own credentials.
 */
export interface ImagePullCredentials {
  readonly kubernetesSecrets?: readonly ImagePullSecret[];
  readonly kubernetesServiceAccounts?: readonly ImagePullServiceAccount[];
  /** The registry required no credentials, or the node's own were used: every pod of the node may use the image. */
  readonly nodePodsAccessible?: boolean;
}

export interface ImagePullSecret {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** SHA-256 of the credential in the Secret, never the credential. */
  readonly credentialHash: string;
}

export interface ImagePullServiceAccount {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

const API_VERSION = "kubelet.config.k8s.io/v1beta1";
const READABLE_API_VERSIONS: readonly unknown[] = [API_VERSION, "kubelet.config.k8s.io/v1alpha1"];

/** Encodes a record as the kubelet does: sorted names, the kubelet's field order, a final newline. */
export function encodePulledRecord({ lastUpdatedTime, imageRef, credentialMapping }: ImagePulledRecord): string {
  const names = Object.keys(credentialMapping).toSorted();
  const mapping = Object.fromEntries(names.map((name) => [name, encodeCredentials(credentialMapping[name] ?? {})]));
  return encode("ImagePulledRecord", {
    lastUpdatedTime,
    imageRef,
    ...(names.length > 0 && { credentialMapping: mapping }),
  });
}

function encodeCredentials(credentials: ImagePullCredentials): ImagePullCredentials {
  const { kubernetesSecrets = [], kubernetesServiceAccounts = [], nodePodsAccessible = false } = credentials;
  return {
    ...(kubernetesSecrets.length > 0 && {
      kubernetesSecrets: kubernetesSecrets.map(({ credentialHash, ...one }) => ({
        ...objectFields(one),
        credentialHash,
      })),
    }),
    ...(kubernetesServiceAccounts.length > 0 && {
      kubernetesServiceAccounts: kubernetesServiceAccounts.map(objectFields),
    }),
    ...(nodePodsAccessible && { nodePodsAccessible }),
  };
}

const objectFields = ({ uid, namespace, name }: ImagePullServiceAccount) => ({ uid, namespace, name });

/**
 * Encodes the intent that is written before a pull. An intent that remains belongs to a pull whose result is unknown.
 */
export function encodePullIntent(image: string): string {
  return encode("ImagePullIntent", { image });
}

function encode(kind: string, fields: Readonly<Record<string, unknown>>): string {
  return `${goJson({ kind, apiVersion: API_VERSION, ...fields })}\n`;
}

/** Decodes a record; undefined for anything else. Like the kubelet, rejects a record with an unknown field. */
export function decodePulledRecord(text: string): ImagePulledRecord | undefined {
  const fields = decode(text, "ImagePulledRecord", ["lastUpdatedTime", "imageRef", "credentialMapping"]);
  const { lastUpdatedTime, imageRef, credentialMapping = {} } = fields ?? {};
  if (typeof lastUpdatedTime !== "string" || typeof imageRef !== "string" || !isObject(credentialMapping))
    return undefined;
  const mapping = Object.entries(credentialMapping);
  if (!mapping.every((entry): entry is [string, ImagePullCredentials] => isCredentials(entry[1]))) return undefined;
  return { lastUpdatedTime, imageRef, credentialMapping: Object.fromEntries(mapping) };
}

/** Decodes an intent to the name of its image; undefined for anything else. */
export function decodePullIntent(text: string): string | undefined {
  const image = decode(text, "ImagePullIntent", ["image"])?.["image"];
  return typeof image === "string" ? image : undefined;
}

function decode(
  text: string,
  kind: string,
  knownFields: readonly string[],
): Readonly<Record<string, unknown>> | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // A torn file. The caller logs it.
    return undefined;
  }
  if (!isObject(value) || value["kind"] !== kind || !READABLE_API_VERSIONS.includes(value["apiVersion"]))
    return undefined;
  return hasOnly(value, ["kind", "apiVersion", ...knownFields]) ? value : undefined;
}

function isCredentials(value: unknown): value is ImagePullCredentials {
  if (!isObject(value)) return false;
  if (!hasOnly(value, ["kubernetesSecrets", "kubernetesServiceAccounts", "nodePodsAccessible"])) return false;
  const { kubernetesSecrets = [], kubernetesServiceAccounts = [], nodePodsAccessible = false } = value;
  return (
    areRecordsOfStrings(kubernetesSecrets, ["uid", "namespace", "name", "credentialHash"]) &&
    areRecordsOfStrings(kubernetesServiceAccounts, ["uid", "namespace", "name"]) &&
    typeof nodePodsAccessible === "boolean"
  );
}

function areRecordsOfStrings(list: unknown, fields: readonly string[]): boolean {
  const isOne = (value: unknown) =>
    isObject(value) && hasOnly(value, fields) && fields.every((field) => typeof value[field] === "string");
  return Array.isArray(list) && list.every(isOne);
}

function hasOnly(value: object, fields: readonly string[]): boolean {
  return Object.keys(value).every((field) => fields.includes(field));
}
