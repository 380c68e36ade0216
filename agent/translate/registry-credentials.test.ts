import { expect, test } from "bun:test";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { type ReferencedObject, type ReferencedObjects, referenceKey } from "../../proto/kubernetes/references.ts";
import type { RegistryCredentials } from "./docker-config-format.ts";
import { credentialsFor } from "./registry-credentials.ts";

const base64 = (text: string) => Buffer.from(text).toString("base64");
const podOf = (...names: readonly string[]): Pod => ({
  metadata: { name: "web", namespace: "shop" },
  spec: { containers: [], imagePullSecrets: names.map((name) => ({ name })) },
});
const keyOf = (name: string) => referenceKey({ kind: "secret", namespace: "shop", name });
/** A credential whose user name shows where it comes from. */
const auths = (from: string, ...locations: readonly string[]) =>
  Object.fromEntries(locations.map((location) => [location, { auth: base64(`${from} ${location}:pw`) }]));
const json = (name: string, ...locations: readonly string[]): readonly [string, ReferencedObject] => [
  keyOf(name),
  {
    uid: name,
    version: "1",
    type: "kubernetes.io/dockerconfigjson",
    data: { ".dockerconfigjson": base64(JSON.stringify({ auths: auths(name, ...locations) })) },
  },
];
const namesOf = (pod: Pod, image: string, referents: ReferencedObjects, ofNode: RegistryCredentials = []) =>
  credentialsFor(pod, image, referents, ofNode).map(({ username }) => username);

const matches: readonly [sentence: string, location: string, image: string, holds: boolean][] = [
  ["the same registry", "registry.example", "registry.example/team/app:1", true],
  ["another registry", "registry.example", "other.example/team/app:1", false],
  ["a registry with its port", "registry.example:5000", "registry.example:5000/app", true],
  ["another port", "registry.example:5000", "registry.example/app", false],
  [
    "an IPv4 address with a port",
    "127.0.0.1:5000",
    "127.0.0.1:5000/app@sha256:0123456789012345678901234567890123456789012345678901234567890123",
    true,
  ],
  ["a path prefix", "registry.example/team", "registry.example/team/app:1", true],
  ["a prefix within a path segment, as in the kubelet", "registry.example/te", "registry.example/team/app:1", true],
  ["another path", "registry.example/others", "registry.example/team/app:1", false],
  ["a URL", "https://registry.example", "registry.example/app", true],
  ["a URL without TLS", "http://registry.example/", "registry.example/app", true],
  ["a URL with the API version", "https://registry.example/v2/", "registry.example/app", true],
  ["a path after the API version", "https://registry.example/v1/team", "registry.example/team/app", true],
  ["a star for one label", "*.example", "registry.example/app", true],
  ["a star for two labels", "*.example", "a.b.example/app", false],
  ["a star within a label", "reg*ry.ex*mple", "registry.example/app", true],
  ["a character class", "[a-r]egistry.example", "registry.example/app", true],
  ["a negated character class", "[^a-q]egistry.example", "registry.example/app", true],
  ["a character class without the character", "[a-q]egistry.example", "registry.example/app", false],
  ["a pattern with exponential backtracking", `${"*a".repeat(40)}.example`, `${"a".repeat(60)}b.example/app`, false],
  ["a star in a path, where it is literal", "registry.example/*", "registry.example/team/app", false],
  ["Docker Hub by Docker's own URL", "https://index.docker.io/v1/", "busybox:1", true],
  ["a user's image on Docker Hub", "https://index.docker.io/v1/", "team/app:1", true],
  ["Docker Hub by its name", "docker.io", "busybox", true],
  ["the official images of Docker Hub", "docker.io/library", "busybox", true],
  ["Docker Hub's credential for another registry", "https://index.docker.io/v1/", "registry.example/app", false],
  ["localhost, which is a registry and not a user", "localhost", "localhost/app", true],
];
for (const [sentence, location, image, holds] of matches)
  test(`a credential ${holds ? "matches" : "does not match"}: ${sentence}`, () => {
    expect(namesOf(podOf("s"), image, new Map([json("s", location)]))).toEqual(
      holds ? [`s ${location}`.split(":")[0] ?? ""] : [],
    );
  });

test("the longest location comes first, then the order of the Secrets, then the node", () => {
  const referents = new Map([
    json("one", "r.example", "r.example/team", "r.example/other"),
    json("two", "r.example/team/app", "r.example"),
    json("unnamed", "r.example"),
  ]);
  const ofNode: RegistryCredentials = [["r.example/team/app", { username: "node", password: "" }]];
  expect(namesOf(podOf("one", "", "gone", "two"), "r.example/team/app:1", referents, ofNode)).toEqual([
    "two r.example/team/app",
    "one r.example/team",
    "one r.example",
    "two r.example",
    "node",
  ]);
});

test("a dockercfg Secret is read, and a Secret of another type has no credentials", () => {
  const data = base64(JSON.stringify(auths("old", "r.example")));
  const referents = new Map<string, ReferencedObject | "absent">([
    [keyOf("old"), { uid: "u", version: "1", type: "kubernetes.io/dockercfg", data: { ".dockercfg": data } }],
    [keyOf("opaque"), { uid: "u", version: "1", type: "Opaque", data: { ".dockercfg": data } }],
    [keyOf("odd"), { uid: "u", version: "1", type: "constructor", data: {} }],
    [keyOf("empty"), { uid: "u", version: "1", type: "kubernetes.io/dockercfg", data: {} }],
    [keyOf("absent"), "absent"],
  ]);
  expect(namesOf(podOf("opaque", "odd", "empty", "absent", "old"), "r.example/app", referents)).toEqual([
    "old r.example",
  ]);
  expect(credentialsFor(podOf("old"), "r.example/app", undefined, [])).toEqual([]);
});

const invalid: readonly [sentence: string, text: string][] = [
  ["invalid JSON", "hunter2"],
  ["a list as its document", "[]"],
  ["a list as its auths", '{"auths": []}'],
  ["a string as an entry", '{"auths": {"r.example": "hunter2"}}'],
  ["an auth that is not base64", '{"auths": {"r.example": {"auth": "hunter2!"}}}'],
  ["an auth without a colon", `{"auths": {"r.example": {"auth": "${base64("hunter2")}"}}}`],
  ["a number as a password", '{"auths": {"r.example": {"username": "u", "password": 2}}}'],
];
for (const [sentence, text] of invalid)
  test(`a Secret with ${sentence} fails the pull with a message that shows only its name`, () => {
    const referent = {
      uid: "u",
      version: "1",
      type: "kubernetes.io/dockerconfigjson",
      data: { ".dockerconfigjson": base64(text) },
    };
    expect(() => credentialsFor(podOf("bad"), "r.example/app", new Map([[keyOf("bad"), referent]]), [])).toThrow(
      expect.objectContaining({
        reason: "ErrImagePull",
        message:
          'image pull secret shop/bad: .dockerconfigjson cannot be read: it has to be a Docker config.json, each auth in it "username:password" in base64',
      }),
    );
  });
