import { decodeBase64 } from "../../proto/base64.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { parseImageReference } from "../../proto/kubernetes/image-reference.ts";
import { pullSecretReferences, type Referents, referenceKey } from "../../proto/kubernetes/references.ts";
import { fromUtf8 } from "../../proto/utf8.ts";
import { TranslateError } from "./translate-error.ts";

/** How somebody is let in by a registry. */
export interface RegistryLogin {
  readonly username: string;
  readonly password: string;
  /** Registries do not ask for it; the kubelet's hash of a login has it in it. */
  readonly email?: string;
  /** Whose it is; left out for what all pods of the node have. */
  readonly owner?: LoginOwner;
}

/** The object of the API by whose right a pod has a login. */
export interface LoginOwner {
  readonly kind: "secret" | "serviceAccount";
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

/** Logins by where they hold: a registry, or a part of one, such as `https://registry.example:5000/team`. */
export type RegistryLogins = readonly (readonly [location: string, login: RegistryLogin])[];

/** `config.json` has the logins in its `auths`, its forerunner `.dockercfg` has nothing else. */
export type LoginsFormat = "config.json" | ".dockercfg";

/** The logins of a file as Docker writes it; undefined for what is none. A file without logins is one. */
export function readLogins(text: string, format: LoginsFormat): RegistryLogins | undefined {
  const whole = parseObject(text);
  if (whole === undefined) return undefined;
  const auths = format === "config.json" ? (whole["auths"] ?? {}) : whole;
  if (!isObject(auths)) return undefined;
  const logins = Object.entries(auths).map(([location, entry]) => [location, readLogin(entry)] as const);
  return logins.every((each): each is [string, RegistryLogin] => each[1] !== undefined) ? logins : undefined;
}

/** `auth` is `username:password` in base64, and counts more than what stands beside it. */
function readLogin(entry: unknown): RegistryLogin | undefined {
  if (!isObject(entry)) return undefined;
  const { username = "", password = "", auth = "", email = "" } = entry;
  if ([username, password, auth, email].some((text) => typeof text !== "string")) return undefined;
  const rest = email === "" ? {} : { email: String(email) };
  if (auth === "") return { username: String(username), password: String(password), ...rest };
  const bytes = decodeBase64(String(auth));
  const parts = bytes && /^([^:]*):(.*)$/s.exec(fromUtf8(bytes));
  return parts ? { username: parts[1] ?? "", password: parts[2] ?? "", ...rest } : undefined;
}

/**
 * The logins to try for an image, in the kubelet's order: those of the pod's own Secrets, those of the node's files, those that its providers
 * have given; of each, what holds for the longest part of the image's name first. Secrets that are not known are left out. Throws
 * `TranslateError` for a Secret that cannot be read.
 */
export function loginsFor(
  pod: Pod,
  image: string,
  referents: Referents | undefined,
  ofNode: RegistryLogins,
  provided: RegistryLogins = [],
): readonly RegistryLogin[] {
  const repository = repositoryOf(image);
  return [...ownLoginsFor(pod, image, referents), ...matching(ofNode, repository), ...matching(provided, repository)];
}

/** Those of the pod's own Secrets alone. Throws as {@link loginsFor} does. */
export function ownLoginsFor(pod: Pod, image: string, referents: Referents | undefined): readonly RegistryLogin[] {
  const own = pullSecretReferences(pod).flatMap((reference) => {
    const secret = referents?.get(referenceKey(reference));
    if (secret === undefined || secret === "absent") return [];
    const { namespace, name } = reference;
    const owner: LoginOwner = { kind: "secret", uid: secret.uid, namespace, name };
    const logins = loginsOfSecret(`${namespace}/${name}`, secret);
    return logins.map(([location, login]) => [location, { ...login, owner }] as const);
  });
  return matching(own, repositoryOf(image));
}

const secretKeys: Readonly<Record<string, readonly [key: string, format: LoginsFormat]>> = {
  "kubernetes.io/dockerconfigjson": [".dockerconfigjson", "config.json"],
  "kubernetes.io/dockercfg": [".dockercfg", ".dockercfg"],
};

/** A Secret of another type has no logins. */
function loginsOfSecret(
  name: string,
  { type, data }: { readonly type: string; readonly data: Readonly<Record<string, string>> },
): RegistryLogins {
  const [key, format] = (Object.hasOwn(secretKeys, type) ? secretKeys[type] : undefined) ?? [];
  const encoded = key === undefined ? undefined : data[key];
  if (format === undefined || !encoded) return [];
  const bytes = decodeBase64(encoded);
  const logins = bytes && readLogins(fromUtf8(bytes), format);
  if (logins !== undefined) return logins;
  throw new TranslateError(
    "ErrImagePull",
    `image pull secret ${name}: ${key} cannot be read: it has to be a Docker ${format}, each auth in it "username:password" in base64`,
  );
}

/** The name of the image with its registry, and without tag and digest. */
export function repositoryOf(image: string): string {
  const { name } = parseImageReference(image) ?? { name: image };
  const [first = "", ...others] = name.split("/");
  const isHost = others.length > 0 && (/[.:]/.test(first) || first === "localhost" || first !== first.toLowerCase());
  if (isHost && first !== "docker.io" && first !== HUB) return name;
  const path = isHost ? others.join("/") : name;
  return `docker.io/${path.includes("/") ? path : `library/${path}`}`;
}

/** What Docker Hub is called in logins. */
const HUB = "index.docker.io";

function matching(logins: RegistryLogins, repository: string): readonly RegistryLogin[] {
  const byPlace = new Map<string, RegistryLogin[]>();
  for (const [location, login] of logins) {
    const place = placeOf(location);
    byPlace.set(place, [...(byPlace.get(place) ?? []), login]);
  }
  const longestFirst = [...byPlace].toSorted(([one], [other]) => (one < other ? 1 : -1));
  const found = longestFirst.filter(([place]) => isWithin(repository, place)).flatMap(([, own]) => own);
  return found.length === 0 && repository.startsWith("docker.io/") ? (byPlace.get(HUB) ?? []) : found;
}

/** Host and path. As to Docker, `/v1/` and `/v2/` behind a host are no path. */
function placeOf(location: string): string {
  const bare = location.replace(/^https?:\/\//, "").replace(/[?#].*$/s, "");
  const { host, path } = partsOf(bare);
  const own = path.replace(/^\/v[12](?=\/)/, "");
  return own === "/" ? host : `${host}${own}`;
}

/** A place may have `*` and its like within the parts of its host's name. */
export function isWithin(repository: string, place: string): boolean {
  const [wanted, given] = [partsOf(place), partsOf(repository)];
  const [names, givenNames] = [wanted.name.split("."), given.name.split(".")];
  if (wanted.port !== given.port || names.length !== givenNames.length || !given.path.startsWith(wanted.path))
    return false;
  return names.every((part, index) => isLike(givenNames[index] ?? "", part));
}

function partsOf(place: string) {
  const at = place.indexOf("/");
  const [host, path] = at < 0 ? [place, ""] : [place.slice(0, at), place.slice(at)];
  const [, name = host, port = ""] = /^([^:]*|\[.*\]):([^:]*)$/.exec(host) ?? [];
  return { host, name, port, path };
}

/**
 * As a shell matches names of files: `*` and `[a-z]`; a question mark begins what is no part of a place. In time that grows with both lengths and no faster, since patterns come from
 * users.
 */
function isLike(text: string, pattern: string): boolean {
  const parts = pattern.match(/\[\^?[^\]]+\]|\\?./gs) ?? [];
  let at = 0;
  let part = 0;
  /** Where to go on if what follows the last star does not fit: it takes one more character. */
  let star: { readonly part: number; readonly at: number } | undefined;
  while (at < text.length) {
    const wanted = parts[part];
    if (wanted === "*") star = { part: part++, at };
    else if (wanted !== undefined && isOneOf(text[at] ?? "", wanted)) {
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

/** One character, and one part of a pattern that stands for one. */
function isOneOf(char: string, part: string): boolean {
  if (!part.startsWith("[") || part.length === 1) return char === part.replace(/^\\(?=.)/s, "");
  const [, not, all = ""] = /^\[(\^?)(.*)\]$/s.exec(part) ?? [];
  const ranges = all.match(/.-.|./gs) ?? [];
  const isAmong = ranges.some((range) => char >= (range[0] ?? "") && char <= (range[2] ?? range[0] ?? ""));
  return isAmong === (not === "");
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    // Its words would show what stands in the text.
    return undefined;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
