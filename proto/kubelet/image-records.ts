import { goJson } from "../go-json.ts";

/*
 * What the kubelet writes down of the images that it pulls, below `image_manager` in its root directory, to the letter: an agent that takes
 * over a node from the other goes on with its records.
 */

/** An image of this node, and by which credentials it was pulled here. */
export interface ImagePulledRecord {
  readonly lastUpdatedTime: string;
  /** As the runtime refers to the image. */
  readonly imageRef: string;
  /** By the image's name as a pod has it, without tag and digest. */
  readonly credentialMapping: Readonly<Record<string, ImagePullCredentials>>;
}

/** By whose right an image was pulled. Nobody's, if all is left out: then each has to show a right of its own. */
export interface ImagePullCredentials {
  readonly kubernetesSecrets?: readonly ImagePullSecret[];
  readonly kubernetesServiceAccounts?: readonly ImagePullServiceAccount[];
  /** The registry asks for none, or the node has one of its own: each pod of the node may use it. */
  readonly nodePodsAccessible?: boolean;
}

export interface ImagePullSecret {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** SHA-256 of the login in it, never the login. */
  readonly credentialHash: string;
}

export interface ImagePullServiceAccount {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

const WRITTEN = "kubelet.config.k8s.io/v1beta1";
const READ: readonly unknown[] = [WRITTEN, "kubelet.config.k8s.io/v1alpha1"];

/** The record as the kubelet writes it, names and fields in its order, with a newline at the end. */
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
        ...coordinates(one),
        credentialHash,
      })),
    }),
    ...(kubernetesServiceAccounts.length > 0 && {
      kubernetesServiceAccounts: kubernetesServiceAccounts.map(coordinates),
    }),
    ...(nodePodsAccessible && { nodePodsAccessible }),
  };
}

const coordinates = ({ uid, namespace, name }: ImagePullServiceAccount) => ({ uid, namespace, name });

/** That an image is being pulled: what is left of it tells of a pull whose end nobody has seen. */
export function encodePullIntent(image: string): string {
  return encode("ImagePullIntent", { image });
}

function encode(kind: string, fields: Readonly<Record<string, unknown>>): string {
  return `${goJson({ kind, apiVersion: WRITTEN, ...fields })}\n`;
}

/** Undefined for what is no such record; one of a field that is not known is none, as to the kubelet. */
export function decodePulledRecord(text: string): ImagePulledRecord | undefined {
  const fields = decode(text, "ImagePulledRecord", ["lastUpdatedTime", "imageRef", "credentialMapping"]);
  const { lastUpdatedTime, imageRef, credentialMapping = {} } = fields ?? {};
  if (typeof lastUpdatedTime !== "string" || typeof imageRef !== "string" || !isObject(credentialMapping))
    return undefined;
  const mapping = Object.entries(credentialMapping);
  if (!mapping.every((entry): entry is [string, ImagePullCredentials] => isCredentials(entry[1]))) return undefined;
  return { lastUpdatedTime, imageRef, credentialMapping: Object.fromEntries(mapping) };
}

/** The image of which it tells; undefined for what is no such record. */
export function decodePullIntent(text: string): string | undefined {
  const image = decode(text, "ImagePullIntent", ["image"])?.["image"];
  return typeof image === "string" ? image : undefined;
}

function decode(text: string, kind: string, known: readonly string[]): Readonly<Record<string, unknown>> | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // A file that was cut short is no record; whoever reads it says so.
    return undefined;
  }
  if (!isObject(value) || value["kind"] !== kind || !READ.includes(value["apiVersion"])) return undefined;
  return hasOnly(value, ["kind", "apiVersion", ...known]) ? value : undefined;
}

function isCredentials(value: unknown): value is ImagePullCredentials {
  if (!isObject(value)) return false;
  if (!hasOnly(value, ["kubernetesSecrets", "kubernetesServiceAccounts", "nodePodsAccessible"])) return false;
  const { kubernetesSecrets = [], kubernetesServiceAccounts = [], nodePodsAccessible = false } = value;
  return (
    areTexts(kubernetesSecrets, ["uid", "namespace", "name", "credentialHash"]) &&
    areTexts(kubernetesServiceAccounts, ["uid", "namespace", "name"]) &&
    typeof nodePodsAccessible === "boolean"
  );
}

function areTexts(list: unknown, fields: readonly string[]): boolean {
  const isOne = (value: unknown) =>
    isObject(value) && hasOnly(value, fields) && fields.every((field) => typeof value[field] === "string");
  return Array.isArray(list) && list.every(isOne);
}

function hasOnly(value: object, fields: readonly string[]): boolean {
  return Object.keys(value).every((field) => fields.includes(field));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
