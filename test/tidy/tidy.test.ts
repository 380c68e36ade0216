// The house rules as a test, each with planted violations that prove that it can fail.
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { rules, type Tree } from "./rules.ts";

const root = join(import.meta.dirname, "..", "..");
const NOT_OURS = new Set(["node_modules", "dist", "state", ".git", "golden"]);

/** Every text of the tree. Not asked of git: a machine that has only the tree can run this too. */
function read(folder: string): readonly (readonly [string, string])[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return NOT_OURS.has(entry.name) && path !== "test/golden" ? [] : read(path);
    return /\.(ts|md|json|yaml)$/.test(path) ? [[path, readFileSync(join(root, path), "utf8")] as const] : [];
  });
}
const tree: Tree = new Map(read("."));

for (const [name, rule] of Object.entries(rules))
  test(name, () => {
    expect(rule(tree)).toEqual([]);
  });

test("the tree was read", () => {
  expect(tree.size).toBeGreaterThan(150);
  expect(tree.has("agent/decide/pod/pod.ts")).toBe(true);
});

const planted: readonly { rule: keyof typeof rules; path: string; text: string; said: string }[] = [
  {
    rule: "every import goes down the stairs",
    path: "agent/decide/x.ts",
    text: 'import { a } from "../../host/clock.ts";',
    said: "agent/decide may not import host",
  },
  {
    rule: "every import goes down the stairs",
    path: "agent/observed/x.ts",
    text: 'import type { a } from "../act/act.ts";',
    said: "agent/observed may not import agent/act",
  },
  {
    rule: "every import goes down the stairs",
    path: "proto/x.ts",
    text: 'const a = await import("../cri/client.ts");',
    said: "proto may not import cri",
  },
  {
    rule: "every import goes down the stairs",
    path: "agent/loop/loop.ts",
    text: 'export { a } from "../act/act.ts";',
    said: "agent/loop may not import agent/act",
  },
  {
    rule: "every import goes down the stairs",
    path: "cli/x.ts",
    text: 'import "../cri/client.ts";',
    said: "cli may not import cri",
  },
  { rule: "every import goes down the stairs", path: "lounge/x.ts", text: "", said: "stands in no room" },
  {
    rule: "decide and translate are pure",
    path: "agent/decide/x.ts",
    text: "const now = Date.now();",
    said: "agent/decide/x.ts:1",
  },
  {
    rule: "decide and translate are pure",
    path: "agent/translate/x.ts",
    text: "\nexport async function f() {}",
    said: "agent/translate/x.ts:2",
  },
  {
    rule: "decide and translate are pure",
    path: "agent/decide/x.ts",
    text: 'import { readdirSync, readFileSync } from "node:fs";',
    said: "node:fs",
  },
  {
    rule: "nobody polls, and timers belong to host",
    path: "agent/act/x.ts",
    text: "setInterval(f, 1);",
    said: "setInterval",
  },
  { rule: "nobody polls, and timers belong to host", path: "cri/x.ts", text: "setTimeout(f, 1);", said: "setTimeout" },
  { rule: "types say what they mean", path: "host/x.ts", text: "let a: any;", said: "host/x.ts:1" },
  { rule: "types say what they mean", path: "host/x.ts", text: "f(a as any);", said: "host/x.ts:1" },
  { rule: "types say what they mean", path: "host/x.ts", text: "// @ts-ignore", said: "host/x.ts:1" },
  { rule: "types say what they mean", path: "host/x.ts", text: "export enum A { B }", said: "host/x.ts:1" },
  { rule: "names are clear", path: "host/FileThing.ts", text: "", said: "kebab-case" },
  { rule: "names are clear", path: "host/utils/x.ts", text: "", said: "no folder is called utils" },
  { rule: "names are clear", path: "host/index.ts", text: "", said: "a folder is not a file" },
  { rule: "names are clear", path: "host/x.ts", text: "export class PodManager {}", said: "PodManager says nothing" },
  { rule: "names are clear", path: "host/x.ts", text: "export const podData = 1;", said: "podData says nothing" },
  { rule: "files are short", path: "host/x.ts", text: "\n".repeat(401), said: "402 lines" },
  {
    rule: "no shell is ever asked",
    path: "host/x.ts",
    text: 'spawn("sh", ["-c", a]);',
    said: "host/x.ts:1",
  },
  { rule: "no shell is ever asked", path: "host/x.ts", text: "await Bun.$`ls`;", said: "host/x.ts:1" },
  {
    rule: "errors are not swallowed without a word",
    path: "host/x.ts",
    text: "try { f(); } catch {\n}",
    said: "an empty catch",
  },
  {
    rule: "errors are not swallowed without a word",
    path: "host/x.ts",
    text: "p.catch(() => {});",
    said: "an empty catch",
  },
  { rule: "nothing is left undone or run alone", path: "host/x.ts", text: "// TODO: more", said: "TODO" },
  {
    rule: "nothing is left undone or run alone",
    path: "host/x.test.ts",
    text: 'test.only("x", f);',
    said: "test.only",
  },
  { rule: "nothing is left undone or run alone", path: "host/x.ts", text: "export default 1;", said: "export default" },
  { rule: "ARCHITECTURE.md is true", path: "agent/dance/x.ts", text: "", said: "says nothing of agent/dance/" },
  {
    rule: "ARCHITECTURE.md is true",
    path: "ARCHITECTURE.md",
    text: "`agent/dance/` dances",
    said: "there is no agent/dance/",
  },
  {
    rule: "dependencies are pinned and decided",
    path: "package.json",
    text: '{"dependencies":{"left-pad":"1.0.0"}}',
    said: "no decision names `left-pad`",
  },
  {
    rule: "dependencies are pinned and decided",
    path: "package.json",
    text: '{"dependencies":{"execa":"^1.0.0"}}',
    said: "execa is not pinned",
  },
];
for (const { rule, path, text, said } of planted)
  test(`a planted violation is found: ${said} (${rule})`, () => {
    const found = rules[rule]!(new Map([...tree, [path, text]]));
    expect(found.join("\n")).toContain(said);
  });
