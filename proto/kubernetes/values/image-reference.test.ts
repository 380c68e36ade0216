import { expect, test } from "bun:test";
import { describeInvalidReference, parseImageReference } from "./image-reference.ts";

const sha = `sha256:${"0123456789abcdef".repeat(4)}`;

test("parseImageReference splits a name at tag and digest", () => {
  const rows: readonly (readonly [text: string, name: string, tag?: string | undefined, digest?: string])[] = [
    ["busybox", "busybox"],
    ["busybox:1.36", "busybox", "1.36"],
    ["registry.example:5000/app", "registry.example:5000/app"],
    ["registry.example:5000/team/app:v1", "registry.example:5000/team/app", "v1"],
    [`app@${sha}`, "app", undefined, sha],
    [`app:v1@${sha}`, "app", "v1", sha],
    ["[::1]:5000/app:v1", "[::1]:5000/app", "v1"],
    ["Registry.Example/app", "Registry.Example/app"],
  ];
  for (const [text, name, tag, digest] of rows) expect(parseImageReference(text)).toEqual({ name, tag, digest });
});

test("parseImageReference rejects an invalid name", () => {
  const rows = [
    "",
    "Upper",
    "a..b",
    "a/",
    "/a",
    "a:",
    "a:-x",
    "a@sha256:12",
    " a",
    "a b",
    "http://a/b",
    "0".repeat(64),
  ];
  for (const text of [...rows, "a".repeat(256), "a/".repeat(100_000)])
    expect(parseImageReference(text)).toBeUndefined();
});

const wrong = "invalid reference format";
const refusals: readonly [text: string, why: string][] = [
  ["a b", wrong],
  ["Upper", `${wrong}: repository name (Upper) must be lowercase`],
  ["registry.test:5000/Team/app:1", `${wrong}: repository name (Team/app) must be lowercase`],
  ["Team/App::", `${wrong}: repository name (App) must be lowercase`],
  ["registry.test/team/app:", wrong],
];
for (const [text, why] of refusals)
  test(`${text} is rejected with the kubelet's message`, () => {
    expect(describeInvalidReference(text)).toBe(why);
  });
