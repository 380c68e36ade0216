import { decodeBase64 } from "../../proto/base64.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { pullSecretReferences, type ReferencedObjects, referenceKey } from "../../proto/kubernetes/references.ts";
import { parseImageReference } from "../../proto/kubernetes/values/image-reference.ts";
import { fromUtf8 } from "../../proto/utf8.ts";
import {
  type CredentialOwner,
  type DockerConfigFormat,
  parseDockerConfig,
  type RegistryCredential,
  type RegistryCredentials,
} from "./docker-config-format.ts";
import { TranslateError } from "./translate-error.ts";

/**
 * The credentials to try for an image, in the kubelet's order: the pod's pull Secrets, the node's Docker
 * configurations, the credential provider plugins; within each, the longest matching location first. Skips Secrets that
 * are unknown or do not exist. Throws `TranslateError` for a Secret with invalid content.
 */
export function credentialsFor(
  pod: Pod,
  image: string,
  objects: ReferencedObjects | undefined,
  nodeCredentials: RegistryCredentials,
  pluginCredentials: RegistryCredentials = [],
): readonly RegistryCredential[] {
  const repository = repositoryOf(image);
  return [
    ...pullSecretCredentialsFor(pod, image, objects),
    ...matchingCredentials(nodeCredentials, repository),
    ...matchingCredentials(pluginCredentials, repository),
  ];
}

/** The credentials of the pod's pull Secrets alone. Throws like {@link credentialsFor}. */
export function pullSecretCredentialsFor(
  pod: Pod,
  image: string,
  objects: ReferencedObjects | undefined,
): readonly RegistryCredential[] {
  const own = pullSecretReferences(pod).flatMap((reference) => {
    const secret = objects?.get(referenceKey(reference));
    if (secret === undefined || secret === "absent") return [];
    const { namespace, name } = reference;
    const owner: CredentialOwner = { kind: "secret", uid: secret.uid, namespace, name };
    const credentials = secretCredentials(`${namespace}/${name}`, secret);
    return credentials.map(([location, credential]) => [location, { ...credential, owner }] as const);
  });
  return matchingCredentials(own, repositoryOf(image));
}

const secretKeys: Readonly<Record<string, readonly [key: string, format: DockerConfigFormat]>> = {
  "kubernetes.io/dockerconfigjson": [".dockerconfigjson", "config.json"],
  "kubernetes.io/dockercfg": [".dockercfg", ".dockercfg"],
};

/** Returns nothing for a Secret of another type. */
function secretCredentials(
  name: string,
  { type, data }: { readonly type: string; readonly data: Readonly<Record<string, string>> },
): RegistryCredentials {
  const [key, format] = (Object.hasOwn(secretKeys, type) ? secretKeys[type] : undefined) ?? [];
  const encoded = key === undefined ? undefined : data[key];
  if (format === undefined || !encoded) return [];
  const bytes = decodeBase64(encoded);
  const credentials = bytes && parseDockerConfig(fromUtf8(bytes), format);
  if (credentials !== undefined) return credentials;
  throw new TranslateError(
    "ErrImagePull",
    `image pull secret ${name}: ${key} cannot be read: it has to be a Docker ${format}, each auth in it "username:password" in base64`,
  );
}

/** The image name with its registry, without tag and digest; Docker Hub's short names are completed. */
export function repositoryOf(image: string): string {
  const { name } = parseImageReference(image) ?? { name: image };
  const [first = "", ...others] = name.split("/");
  const isHost = others.length > 0 && (/[.:]/.test(first) || first === "localhost" || first !== first.toLowerCase());
  if (isHost && first !== "docker.io" && first !== DOCKER_HUB) return name;
  const path = isHost ? others.join("/") : name;
  return `docker.io/${path.includes("/") ? path : `library/${path}`}`;
}

/** The name of Docker Hub in Docker configurations. */
const DOCKER_HUB = "index.docker.io";

function matchingCredentials(credentials: RegistryCredentials, repository: string): readonly RegistryCredential[] {
  const byLocation = new Map<string, RegistryCredential[]>();
  for (const [location, credential] of credentials) {
    const normalizedLocation = normalizeLocation(location);
    byLocation.set(normalizedLocation, [...(byLocation.get(normalizedLocation) ?? []), credential]);
  }
  const longestFirst = [...byLocation].toSorted(([one], [other]) => (one < other ? 1 : -1));
  const found = longestFirst
    .filter(([normalizedLocation]) => coversRepository(repository, normalizedLocation))
    .flatMap(([, own]) => own);
  return found.length === 0 && repository.startsWith("docker.io/") ? (byLocation.get(DOCKER_HUB) ?? []) : found;
}

/** Normalises a location to host and path. Like Docker, ignores `/v1/` and `/v2/` after the host. */
function normalizeLocation(location: string): string {
  const bare = location.replace(/^https?:\/\//, "").replace(/[?#].*$/s, "");
  const { host, path } = splitLocation(bare);
  const own = path.replace(/^\/v[12](?=\/)/, "");
  return own === "/" ? host : `${host}${own}`;
}

/** Whether a credential location covers a repository. The labels of its host may contain glob patterns. */
export function coversRepository(repository: string, location: string): boolean {
  const [pattern, given] = [splitLocation(location), splitLocation(repository)];
  const [names, givenNames] = [pattern.name.split("."), given.name.split(".")];
  if (pattern.port !== given.port || names.length !== givenNames.length || !given.path.startsWith(pattern.path))
    return false;
  return names.every((part, index) => matchesGlob(givenNames[index] ?? "", part));
}

function splitLocation(location: string) {
  const at = location.indexOf("/");
  const [host, path] = at < 0 ? [location, ""] : [location.slice(0, at), location.slice(at)];
  const [, name = host, port = ""] = /^([^:]*|\[.*\]):([^:]*)$/.exec(host) ?? [];
  return { host, name, port, path };
}

/**
 * Matches like filepath.Match of Go within one label: `*` and `[a-z]`; a question mark starts a URL query, which is no
 * part of a location. Runs in O(text × pattern), since patterns come from users.
 */
function matchesGlob(text: string, pattern: string): boolean {
  const parts = pattern.match(/\[\^?[^\]]+\]|\\?./gs) ?? [];
  let at = 0;
  let part = 0;
  /** Where to backtrack to: the last star, which then covers one more character. */
  let star: { readonly part: number; readonly at: number } | undefined;
  while (at < text.length) {
    const element = parts[part];
    if (element === "*") star = { part: part++, at };
    else if (element !== undefined && matchesElement(text[at] ?? "", element)) {
      at += 1;
      part += 1;
    } else if (star === undefined) return false;
    else {
      star = { part: star.part, at: star.at + 1 };
      at = star.at;
      part = star.part + 1;
    }
  }
  return parts.slice(part).every((rest) => rest === "*");
}

/** Matches one character against one element of a pattern. */
function matchesElement(char: string, part: string): boolean {
  if (!part.startsWith("[") || part.length === 1) return char === part.replace(/^\\(?=.)/s, "");
  const [, negation, all = ""] = /^\[(\^?)(.*)\]$/s.exec(part) ?? [];
  const ranges = all.match(/.-.|./gs) ?? [];
  const isAmong = ranges.some((range) => char >= (range[0] ?? "") && char <= (range[2] ?? range[0] ?? ""));
  return isAmong === (negation === "");
}
