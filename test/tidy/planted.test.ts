// Proves with planted violations that the project's settings of biome and the compiler enforce their rules.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { execa } from "execa";

const root = join(import.meta.dirname, "..", "..");
const program = (name: string) => join(root, "node_modules", ".bin", name);
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-planted-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function plant(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}

/** By file: the rule, and a text that violates it. */
const violations: Readonly<Record<string, readonly [rule: string, text: string]>> = {
  "host/egg.ts": ["noImportCycles", 'import { hen } from "./hen.ts";\nexport const egg = (): number => hen();\n'],
  "host/hen.ts": ["noImportCycles", 'import { egg } from "./egg.ts";\nexport const hen = (): number => egg();\n'],
  "host/floating.ts": [
    "noFloatingPromises",
    "const later = async (): Promise<number> => await Promise.resolve(1);\nexport function now(): void {\n  later();\n}\n",
  ],
  "host/misused.ts": [
    "noMisusedPromises",
    "const later = async (): Promise<boolean> => await Promise.resolve(true);\nexport function now(): number {\n  if (later()) return 1;\n  return 2;\n}\n",
  ],
  "host/switch.ts": [
    "useExhaustiveSwitchCases",
    'export function mode(kind: "file" | "folder"): number {\n  switch (kind) {\n    case "file":\n      return 1;\n  }\n  return 2;\n}\n',
  ],
  "host/default.ts": ["noDefaultExport", "export default 1;\n"],
  "host/assertion.ts": ["noNonNullAssertion", "export const first = (list: readonly number[]): number => list[0]!;\n"],
  "host/type.ts": ["useImportType", 'import { egg } from "./egg.ts";\nexport type Egg = typeof egg;\n'],
  "host/any.ts": ["noExplicitAny", "export const same = (value: any): unknown => value;\n"],
  "host/function.ts": [
    "noExcessiveLinesPerFunction",
    `export function count(): number {\n  let sum = 0;\n${"  sum++;\n".repeat(60)}  return sum;\n}\n`,
  ],
  "host/file.ts": [
    "noExcessiveLinesPerFile",
    Array.from({ length: 401 }, (_, line) => `export const line${line} = ${line};\n`).join(""),
  ],
};

interface Diagnostic {
  readonly category: string;
  readonly location: { readonly path: string };
}

test("biome reports a violation of each rule that biome.json enables", async () => {
  await plant(Object.fromEntries(Object.entries(violations).map(([path, [, text]]) => [path, text])));
  // Tests may contain long functions and non-null assertions.
  const [long = "", asserted = ""] = ["host/function.ts", "host/assertion.ts"].map((path) => violations[path]?.[1]);
  await plant({ "host/function.test.ts": long, "test/assertion.ts": asserted });
  for (const file of ["biome.json", ".gitignore"]) await copyFile(join(root, file), join(folder, file));

  const argv = ["lint", "--reporter=json", "--max-diagnostics=100", "host", "test"];
  const { stdout } = await execa(program("biome"), argv, { cwd: folder, reject: false });
  const { diagnostics } = JSON.parse(stdout) as { readonly diagnostics: readonly Diagnostic[] };
  const found = diagnostics.map(({ category, location }) => `${location.path}: ${category.split("/").at(-1)}`);
  const planted = Object.entries(violations).map(([path, [rule]]) => `${path}: ${rule}`);
  expect(found.toSorted()).toEqual(planted.toSorted());
  const rules = new Set(Object.values(violations).map(([rule]) => rule));
  expect(await enabledRules()).toEqual([...rules].toSorted());
});

/** The rules that biome.json enables by name. */
async function enabledRules(): Promise<readonly string[]> {
  const { linter } = JSON.parse(await readFile(join(root, "biome.json"), "utf8")) as {
    readonly linter: { readonly rules: Readonly<Record<string, string | Readonly<Record<string, unknown>>>> };
  };
  const groups = Object.values(linter.rules).flatMap((group) => (typeof group === "string" ? [] : [group]));
  return groups
    .flatMap((group) => Object.entries(group))
    .flatMap(([rule, level]) => (level === "off" ? [] : [rule]))
    .toSorted();
}

const machine = ["process", "Bun", "Buffer", "fetch", "console", "performance", "crypto"];
const timers = ["setTimeout", "setInterval", "setImmediate", "queueMicrotask"];

test("the compiler rejects the machine's globals and timers in agent/decide and agent/translate", async () => {
  const text = `export const impure = [\n${[...machine, ...timers].map((name) => `  ${name},\n`).join("")}];\n`;
  const components = ["decide", "translate"];
  for (const component of components)
    await plant({
      [`agent/${component}/tsconfig.json`]: JSON.stringify({
        extends: join(root, "agent", component, "tsconfig.json"),
        include: ["*.ts"],
      }),
      [`agent/${component}/impure.ts`]: text,
      [`agent/${component}/file.ts`]: 'export { readFileSync } from "node:fs";\n',
    });
  const compile = async (component: string) => {
    const argv = ["--noEmit", "--pretty", "false", "-p", join("agent", component)];
    const { stdout } = await execa(program("tsc"), argv, { cwd: folder, reject: false });
    return [...stdout.matchAll(/^\S+\(.*Cannot find name '([^']+)'/gm)].map(([, name = ""]) => name);
  };
  const refused = ["node:fs", ...machine, ...timers];
  expect(await Promise.all(components.map(compile))).toEqual([refused, refused]);
});

test("knip reports what nothing uses, and what only tests use, unless it is internal", async () => {
  const tree = join(folder, "knip");
  const used = ["used", "tested", "internal", "unused"].map((name) => `export const ${name} = 1;\n`);
  await plant({
    "knip/package.json": '{ "type": "module" }',
    "knip/cli/main.ts": 'import { used } from "../host/a.ts";\nconsole.log(used);\n',
    "knip/host/a.ts": used.join("").replace("export const internal", "/** @internal */\n$&"),
    "knip/host/a.test.ts": 'import { internal, tested } from "./a.ts";\nconsole.log(internal, tested);\n',
  });
  await copyFile(join(root, "knip.json"), join(tree, "knip.json"));
  const reported = async (...argv: readonly string[]) => {
    const args = [program("knip-bun"), "--include=exports,files", "--no-config-hints", ...argv];
    const { stdout } = await execa(process.execPath, args, { cwd: tree, reject: false });
    return [...stdout.matchAll(/^(\w+) +host\/a\.ts/gm)].map(([, name = ""]) => name);
  };
  expect(await reported()).toEqual(["unused"]);
  expect(await reported("--production")).toEqual(["tested", "unused"]);
});
