// Checks the rules of the repository, and proves with planted violations that each rule can fail.
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { rules, type Tree } from "./rules.ts";

const root = join(import.meta.dirname, "..", "..");
const IGNORED = new Set(["node_modules", "dist", "state", ".git", "golden"]);

/** Reads every text file of the tree. Does not use git, so it also works in a plain copy of the tree. */
function read(folder: string): readonly (readonly [string, string])[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return IGNORED.has(entry.name) && path !== "test/golden" ? [] : read(path);
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

const planted: readonly { rule: keyof typeof rules; path: string; text: string; expected: string }[] = [
  {
    rule: "every import follows the dependency table",
    path: "agent/decide/x.ts",
    text: 'import { a } from "../../host/clock.ts";',
    expected: "agent/decide may not import host",
  },
  {
    rule: "every import follows the dependency table",
    path: "agent/observed/x.ts",
    text: 'import type { a } from "../act/act.ts";',
    expected: "agent/observed may not import agent/act",
  },
  {
    rule: "every import follows the dependency table",
    path: "proto/x.ts",
    text: 'const a = await import("../cri/client.ts");',
    expected: "proto may not import cri",
  },
  {
    rule: "every import follows the dependency table",
    path: "agent/loop/loop.ts",
    text: 'export { a } from "../act/act.ts";',
    expected: "agent/loop may not import agent/act",
  },
  {
    rule: "one file of the decisions reads pod.status",
    path: "agent/decide/container/x.ts",
    text: "const reported = desired.pod.status?.phase;",
    expected: "agent/decide/container/x.ts:1: const reported = desired.pod.status?.phase;",
  },
  {
    rule: "one file of the decisions reads pod.status",
    path: "agent/decide/status/x.ts",
    text: "export function phaseOf({ status }: Pod): string {",
    expected: "agent/decide/status/x.ts:1: export function phaseOf({ status }: Pod): string {",
  },
  {
    rule: "one file of the decisions reads pod.status",
    path: "agent/decide/pod/x.ts",
    text: "const { spec, status } = desired.pod;",
    expected: "agent/decide/pod/x.ts:1: const { spec, status } = desired.pod;",
  },
  {
    rule: "one file of the decisions reads pod.status",
    path: "agent/observed/probes/x.ts",
    text: "const known = target.pod.status;",
    expected: "agent/observed/probes/x.ts:1: const known = target.pod.status;",
  },
  {
    rule: "well-known keys are in one file",
    path: "agent/decide/x.ts",
    text: 'const key = "topology.kubernetes.io/zone";',
    expected: 'agent/decide/x.ts:1: const key = "topology.kubernetes.io/zone";',
  },
  {
    rule: "well-known keys are in one file",
    path: "agent/translate/x.ts",
    text: 'const label = "io.kubernetes.pod.name";',
    expected: 'agent/translate/x.ts:1: const label = "io.kubernetes.pod.name";',
  },
  {
    rule: "every import follows the dependency table",
    path: "cli/x.ts",
    text: 'import "../kube/client.ts";',
    expected: "cli may not import kube",
  },
  {
    rule: "every import follows the dependency table",
    path: "agent/x.ts",
    text: "",
    expected: "agent/x.ts: belongs to no component",
  },
  {
    rule: "every import follows the dependency table",
    path: "extra/x.ts",
    text: "",
    expected: "belongs to no component",
  },
  {
    rule: "the product uses what it marks as internal",
    path: "host/x.ts",
    text: "/**\n * Whether hasEgg says so.\n * @internal\n */\nexport function hasEgg(): boolean {",
    expected: "host/x.ts: only tests use hasEgg",
  },
  {
    rule: "decide and translate are pure",
    path: "agent/decide/x.ts",
    text: "const now = Date.now();",
    expected: "agent/decide/x.ts:1",
  },
  {
    rule: "decide and translate are pure",
    path: "agent/translate/x.ts",
    text: "\nexport async function f() {}",
    expected: "agent/translate/x.ts:2",
  },
  {
    rule: "decide and translate are pure",
    path: "agent/decide/x.ts",
    text: 'import { readdirSync, readFileSync } from "node:fs";',
    expected: "node:fs",
  },
  {
    rule: "nothing polls, and timers belong to host",
    path: "agent/act/x.ts",
    text: "setInterval(f, 1);",
    expected: "setInterval",
  },
  {
    rule: "nothing polls, and timers belong to host",
    path: "cri/x.ts",
    text: "setTimeout(f, 1);",
    expected: "setTimeout",
  },
  { rule: "types are precise", path: "host/x.ts", text: "let a: any;", expected: "host/x.ts:1" },
  { rule: "types are precise", path: "host/x.ts", text: "f(a as any);", expected: "host/x.ts:1" },
  { rule: "types are precise", path: "host/x.ts", text: "// @ts-ignore", expected: "host/x.ts:1" },
  { rule: "types are precise", path: "host/x.ts", text: "export enum A { B }", expected: "host/x.ts:1" },
  { rule: "names are clear", path: "host/FileThing.ts", text: "", expected: "kebab-case" },
  { rule: "names are clear", path: "host/utils/x.ts", text: "", expected: "a folder must not be called utils" },
  { rule: "names are clear", path: "host/index.ts", text: "", expected: "name the file after what it contains" },
  { rule: "names are clear", path: "host/x.ts", text: "export class PodManager {}", expected: "PodManager is vague" },
  { rule: "names are clear", path: "host/x.ts", text: "export const podData = 1;", expected: "podData is vague" },
  { rule: "files are short", path: "host/x.ts", text: "\n".repeat(401), expected: "402 lines" },
  {
    rule: "words are plain",
    path: "agent/observed/told-pods.ts",
    text: "",
    expected: 'agent/observed/told-pods.ts: the file name says "told"',
  },
  {
    rule: "words are plain",
    path: "host/x.ts",
    text: "const lastHeardAt = 0;",
    expected: 'host/x.ts:1: the name lastHeardAt says "heard"',
  },
  {
    rule: "words are plain",
    path: "host/x.ts",
    text: "\n/** Whoever waits, waits longer. */",
    expected: 'host/x.ts:2: a comment says "whoever"',
  },
  {
    rule: "words are plain",
    path: "host/x.ts",
    text: "log.warn({}, `the watch has no news`);",
    expected: 'host/x.ts:1: a text says "news"',
  },
  {
    rule: "words are plain",
    path: "host/x.test.ts",
    text: 'test("the loop is told of a change", () => {});',
    expected: 'host/x.test.ts:1: the name of a test says "told"',
  },
  {
    rule: "words are plain",
    path: "docs/x.md",
    text: "# Pods\n\nThe agent is told of each pod.",
    expected: 'docs/x.md:3: the text says "told"',
  },
  {
    rule: "no program is started through a shell",
    path: "host/x.ts",
    text: 'spawn("sh", ["-c", a]);',
    expected: "host/x.ts:1",
  },
  {
    rule: "no program is started through a shell",
    path: "host/x.ts",
    text: "await Bun.$`ls`;",
    expected: "host/x.ts:1",
  },
  {
    rule: "the wiring binds nothing late",
    path: "agent/main.ts",
    text: "  let agent: Agent | undefined;",
    expected: "agent/main.ts:1: let agent",
  },
  {
    rule: "the wiring binds nothing late",
    path: "agent/wiring/x.ts",
    text: "  let wakeAllPods = () => {};",
    expected: "agent/wiring/x.ts:1: let wakeAllPods",
  },
  {
    rule: "errors are not swallowed without a reason",
    path: "host/x.ts",
    text: "try { f(); } catch {\n}",
    expected: "host/x.ts:1: swallows an error",
  },
  {
    rule: "errors are not swallowed without a reason",
    path: "host/x.ts",
    text: "p.catch(() => {});",
    expected: "host/x.ts:1: swallows an error",
  },
  {
    rule: "errors are not swallowed without a reason",
    path: "host/x.ts",
    text: "p.catch(() => undefined);",
    expected: "host/x.ts:1: swallows an error",
  },
  {
    rule: "errors are not swallowed without a reason",
    path: "test/x.ts",
    text: '\nconst text = await readFile(path, "utf8").catch(() => "");',
    expected: "test/x.ts:2: swallows an error",
  },
  {
    rule: "errors are not swallowed without a reason",
    path: "host/x.ts",
    text: "const names = await readdir(path).catch((): readonly string[] => []);",
    expected: "host/x.ts:1: swallows an error",
  },
  {
    rule: "errors are not swallowed without a reason",
    path: "host/x.ts",
    text: "await read().catch(\n  () => false,\n);",
    expected: "host/x.ts:1: swallows an error",
  },
  {
    rule: "errors are not swallowed without a reason",
    path: "host/x.ts",
    text: "try {\n  f();\n} catch {\n  return undefined;\n}",
    expected: "host/x.ts:3: swallows an error",
  },
  {
    rule: "expectations of promises are awaited",
    path: "host/x.test.ts",
    text: "test(name, async () => {\n  expect(read()).rejects.toThrow(message);\n});",
    expected: "host/x.test.ts:2: await the expectation",
  },
  {
    rule: "expectations of promises are awaited",
    path: "host/x.test.ts",
    text: "  await each(one);\n  expect(\n    read(one),\n  ).resolves.toBe(1);",
    expected: "host/x.test.ts:2: await the expectation",
  },
  {
    rule: "no TODO, focused test or default export is left",
    path: "host/x.ts",
    text: "// TODO: more",
    expected: "TODO",
  },
  {
    rule: "no TODO, focused test or default export is left",
    path: "host/x.test.ts",
    text: 'test.only("x", f);',
    expected: "test.only",
  },
  {
    rule: "no TODO, focused test or default export is left",
    path: "host/x.ts",
    text: "export default 1;",
    expected: "export default",
  },
  {
    rule: "ARCHITECTURE.md names the folders that exist",
    path: "agent/dance/x.ts",
    text: "",
    expected: "does not mention agent/dance/",
  },
  {
    rule: "ARCHITECTURE.md names the folders that exist",
    path: "ARCHITECTURE.md",
    text: "`agent/dance/` dances",
    expected: "mentions agent/dance/, which does not exist",
  },
  {
    rule: "dependencies are pinned and explained",
    path: "package.json",
    text: '{"dependencies":{"left-pad":"1.0.0"}}',
    expected: "no decision explains `left-pad`",
  },
  {
    rule: "dependencies are pinned and explained",
    path: "package.json",
    text: '{"dependencies":{"execa":"^1.0.0"}}',
    expected: "execa is not pinned",
  },
];
for (const { rule, path, text, expected } of planted)
  test(`a planted violation is reported: ${expected} (${rule})`, () => {
    const isFound = (planted: Tree) => rules[rule]!(planted).join("\n").includes(expected);
    // Most rules look at one file at a time: then the others cost time alone.
    const alone = new Map([[path, text]]);
    expect(isFound(alone) || isFound(new Map([...tree, ...alone]))).toBe(true);
  });

test.each([
  "// The file may be missing.\np.catch(() => undefined);",
  "p.catch(() => undefined); // The file may be missing.",
  "try { f(); } catch {\n  // The next pass repeats it.\n}",
  'const refused = await start().catch(() => "refused");',
  "await p.catch((error: unknown) => log(error));",
])("a catch that explains itself, or keeps the error, is accepted: %s", (text) => {
  expect(rules["errors are not swallowed without a reason"]!(new Map([["host/x.ts", text]]))).toEqual([]);
});
