import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildInto, downloadModules, requiredVersion } from "./go-module.ts";

let cache = "";
beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), "berth-go-module-test-"));
});
afterEach(() => rm(cache, { recursive: true }));

test("a build appears in one step, and of two at once the first one stays", async () => {
  const folder = join(cache, "upstream", "program-1.0");
  await buildInto(folder, async (work) => {
    await buildInto(folder, (other) => writeFile(join(other, "program"), "of the other process"));
    await writeFile(join(work, "program"), "own");
  });
  expect(await readFile(join(folder, "program"), "utf8")).toBe("of the other process");
  expect(await readdir(join(cache, "upstream"))).toEqual(["program-1.0"]);
});

test("a failed build leaves nothing", async () => {
  const folder = join(cache, "program-1.0");
  await expect(buildInto(folder, () => Promise.reject(new Error("syntax error")))).rejects.toThrow("syntax error");
  expect(await readdir(cache)).toEqual([]);
});

test("a go.mod names the version of a module, and its absence is an error", () => {
  expect(requiredVersion("require (\n\texample.org/a/v2 v2.0.14 // indirect\n)\n", "example.org/a/v2")).toBe("2.0.14");
  expect(() => requiredVersion("module b\n", "example.org/a")).toThrow("go.mod requires no example.org/a");
});

/** A `go` that prints the next line of its script to stderr and fails, and succeeds once there is none. */
async function scriptedGo(lines: readonly string[]): Promise<string> {
  await writeFile(join(cache, "script"), lines.map((line) => `${line}\n`).join(""));
  const program = join(cache, "go");
  const text = `#!/bin/sh
cd "${cache}"
echo "$@" >> calls
[ -s script ] || exit 0
head -n 1 script >&2
sed -i 1d script
exit 1
`;
  await writeFile(program, text, { mode: 0o755 });
  return program;
}

async function download(lines: readonly string[]) {
  const sleeps: number[] = [];
  const go = await scriptedGo(lines);
  const sleep = async (ms: number) => void sleeps.push(ms);
  const problem = await downloadModules({ go, folder: cache, packages: ["a/b", "c"], sleep }).then(
    () => undefined,
    (error: { readonly stderr: string }) => error.stderr,
  );
  const calls = (await readFile(join(cache, "calls"), "utf8")).trimEnd().split("\n");
  expect(new Set(calls)).toEqual(new Set(["list -deps a/b c"]));
  return { sleeps, problem, calls: calls.length };
}

const timeout = 'k8s.io/kubernetes@v1.36.3: Get "https://proxy.example/k8s.io": net/http: TLS handshake timeout';

test.each([
  ["one try without a failure", [], { calls: 1, sleeps: [], problem: undefined }],
  ["another try after a time-out", [timeout, timeout], { calls: 3, sleeps: [2_000, 4_000], problem: undefined }],
  [
    "the end of six time-outs",
    Array(7).fill(timeout),
    { calls: 6, sleeps: [2_000, 4_000, 8_000, 16_000, 20_000], problem: timeout },
  ],
  [
    "no other try of what stays wrong",
    ["a/b: no matching versions"],
    { calls: 1, sleeps: [], problem: "a/b: no matching versions" },
  ],
] as const)("a download of modules: %s", async (_, lines, expected) => {
  expect<unknown>(await download(lines)).toEqual(expected);
});

test("kube-proxy is of the control plane's release", async () => {
  const releaseIn = async (folder: string) =>
    requiredVersion(await readFile(join(import.meta.dirname, folder, "go.mod"), "utf8"), "k8s.io/kubernetes");
  expect(await releaseIn("kube-proxy")).toBe(await releaseIn("kubernetes"));
});
