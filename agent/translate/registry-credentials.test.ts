import { expect, test } from "bun:test";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { type Referent, type Referents, referenceKey } from "../../proto/kubernetes/references.ts";
import { loginsFor, type RegistryLogins, readLogins } from "./registry-credentials.ts";

const base64 = (text: string) => Buffer.from(text).toString("base64");
const podOf = (...names: readonly string[]): Pod => ({
  metadata: { name: "web", namespace: "shop" },
  spec: { containers: [], imagePullSecrets: names.map((name) => ({ name })) },
});
const keyOf = (name: string) => referenceKey({ kind: "secret", namespace: "shop", name });
/** A login whose name says where it is from. */
const auths = (from: string, ...locations: readonly string[]) =>
  Object.fromEntries(locations.map((location) => [location, { auth: base64(`${from} ${location}:pw`) }]));
const json = (name: string, ...locations: readonly string[]): readonly [string, Referent] => [
  keyOf(name),
  {
    uid: name,
    type: "kubernetes.io/dockerconfigjson",
    data: { ".dockerconfigjson": base64(JSON.stringify({ auths: auths(name, ...locations) })) },
  },
];
const namesOf = (pod: Pod, image: string, referents: Referents, ofNode: RegistryLogins = []) =>
  loginsFor(pod, image, referents, ofNode).map(({ username }) => username);

const matches: readonly [sentence: string, location: string, image: string, holds: boolean][] = [
  ["a registry", "registry.example", "registry.example/team/app:1", true],
  ["another registry", "registry.example", "other.example/team/app:1", false],
  ["a registry with its port", "registry.example:5000", "registry.example:5000/app", true],
  ["another port", "registry.example:5000", "registry.example/app", false],
  [
    "an address",
    "127.0.0.1:5000",
    "127.0.0.1:5000/app@sha256:0123456789012345678901234567890123456789012345678901234567890123",
    true,
  ],
  ["a part of a registry", "registry.example/team", "registry.example/team/app:1", true],
  ["the beginning of a name, as by the kubelet", "registry.example/te", "registry.example/team/app:1", true],
  ["another part", "registry.example/others", "registry.example/team/app:1", false],
  ["a URL", "https://registry.example", "registry.example/app", true],
  ["a URL without TLS", "http://registry.example/", "registry.example/app", true],
  ["a URL of the API's version", "https://registry.example/v2/", "registry.example/app", true],
  ["a part behind a version", "https://registry.example/v1/team", "registry.example/team/app", true],
  ["any name of a domain", "*.example", "registry.example/app", true],
  ["a star takes no dots", "*.example", "a.b.example/app", false],
  ["a star within a name", "reg*ry.ex*mple", "registry.example/app", true],
  ["characters of a class", "[a-r]egistry.example", "registry.example/app", true],
  ["characters that are none of a class", "[^a-q]egistry.example", "registry.example/app", true],
  ["characters of another class", "[a-q]egistry.example", "registry.example/app", false],
  ["a pattern that would take for ever", `${"*a".repeat(40)}.example`, `${"a".repeat(60)}b.example/app`, false],
  ["a star in a path, which is none", "registry.example/*", "registry.example/team/app", false],
  ["Docker Hub, as Docker calls it", "https://index.docker.io/v1/", "busybox:1", true],
  ["Docker Hub for a user's image", "https://index.docker.io/v1/", "team/app:1", true],
  ["Docker Hub by its name", "docker.io", "busybox", true],
  ["the official images of Docker Hub", "docker.io/library", "busybox", true],
  ["Docker Hub for another registry", "https://index.docker.io/v1/", "registry.example/app", false],
  ["localhost, which is no user of Docker Hub", "localhost", "localhost/app", true],
];
for (const [sentence, location, image, holds] of matches)
  test(`a login holds ${holds ? "" : "not "}for: ${sentence}`, () => {
    expect(namesOf(podOf("s"), image, new Map([json("s", location)]))).toEqual(
      holds ? [`s ${location}`.split(":")[0] ?? ""] : [],
    );
  });

test("the longest place counts first, then the order of the Secrets, then the node", () => {
  const referents = new Map([
    json("one", "r.example", "r.example/team", "r.example/other"),
    json("two", "r.example/team/app", "r.example"),
    json("unnamed", "r.example"),
  ]);
  const ofNode: RegistryLogins = [["r.example/team/app", { username: "node", password: "" }]];
  expect(namesOf(podOf("one", "", "gone", "two"), "r.example/team/app:1", referents, ofNode)).toEqual([
    "two r.example/team/app",
    "one r.example/team",
    "one r.example",
    "two r.example",
    "node",
  ]);
});

test("the older kind of Secret is read too, and one of another type has no login", () => {
  const data = base64(JSON.stringify(auths("old", "r.example")));
  const referents = new Map<string, Referent | "absent">([
    [keyOf("old"), { uid: "u", type: "kubernetes.io/dockercfg", data: { ".dockercfg": data } }],
    [keyOf("opaque"), { uid: "u", type: "Opaque", data: { ".dockercfg": data } }],
    [keyOf("odd"), { uid: "u", type: "constructor", data: {} }],
    [keyOf("empty"), { uid: "u", type: "kubernetes.io/dockercfg", data: {} }],
    [keyOf("absent"), "absent"],
  ]);
  expect(namesOf(podOf("opaque", "odd", "empty", "absent", "old"), "r.example/app", referents)).toEqual([
    "old r.example",
  ]);
  expect(loginsFor(podOf("old"), "r.example/app", undefined, [])).toEqual([]);
});

const broken: readonly [sentence: string, text: string][] = [
  ["no JSON", "hunter2"],
  ["no object", "[]"],
  ["auths that are none", '{"auths": []}'],
  ["an entry that is none", '{"auths": {"r.example": "hunter2"}}'],
  ["an auth that is not base64", '{"auths": {"r.example": {"auth": "hunter2!"}}}'],
  ["an auth without a colon", `{"auths": {"r.example": {"auth": "${base64("hunter2")}"}}}`],
  ["a password that is none", '{"auths": {"r.example": {"username": "u", "password": 2}}}'],
];
for (const [sentence, text] of broken)
  test(`a Secret with ${sentence} fails the pull, and says of itself only its name`, () => {
    const referent = { uid: "u", type: "kubernetes.io/dockerconfigjson", data: { ".dockerconfigjson": base64(text) } };
    expect(() => loginsFor(podOf("bad"), "r.example/app", new Map([[keyOf("bad"), referent]]), [])).toThrow(
      expect.objectContaining({
        reason: "ErrImagePull",
        message:
          'image pull secret shop/bad: .dockerconfigjson cannot be read: it has to be a Docker config.json, each auth in it "username:password" in base64',
      }),
    );
  });

const files: readonly [sentence: string, text: string, logins: RegistryLogins][] = [
  ["a file without logins has none", "{}", []],
  [
    "a password may have colons",
    `{"auths":{"r":{"auth":"${base64("u:p:w")}"}}}`,
    [["r", { username: "u", password: "p:w" }]],
  ],
  [
    "auth counts more than what stands beside it",
    `{"auths":{"r":{"username":"x","password":"y","auth":"${base64("u:p")}"}}}`,
    [["r", { username: "u", password: "p" }]],
  ],
  [
    "name and password may stand for themselves",
    '{"auths":{"r":{"username":"x","password":"y","email":"e"}}}',
    [["r", { username: "x", password: "y", email: "e" }]],
  ],
];
for (const [sentence, text, logins] of files)
  test(`of a config.json: ${sentence}`, () => {
    expect(readLogins(text, "config.json")).toEqual(logins);
  });
