import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { kubeletVersionLine, kubeletVersionRaw, versionLine } from "./version.ts";

/** The Kubernetes release that the API types were generated from. */
const { version } = JSON.parse(
  readFileSync(join(import.meta.dirname, "..", "proto", "kubernetes", "openapi.json"), "utf8"),
) as { readonly version: string };

test("kubelet --version prints the API's release in the format that kubeadm parses", () => {
  expect(kubeletVersionLine()).toBe(`Kubernetes ${version}\n`);
  // The regular expression of kubeadm's preflight checks.
  expect(kubeletVersionLine()).toMatch(/^\s*Kubernetes v((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([-\w.+]*)?)\s*$/);
});

test("kubelet --version=raw prints every field of the kubelet in its order", () => {
  const raw = kubeletVersionRaw();
  expect(raw).toStartWith('version.Info{Major:"1", Minor:"36", EmulationMajor:"", ');
  expect([...raw.matchAll(/(\w+):"/g)].map(([, name]) => name)).toEqual([
    "Major",
    "Minor",
    "EmulationMajor",
    "EmulationMinor",
    "MinCompatibilityMajor",
    "MinCompatibilityMinor",
    "GitVersion",
    "GitCommit",
    "GitTreeState",
    "BuildDate",
    "GoVersion",
    "Compiler",
    "Platform",
  ]);
  expect(raw).toContain(`GitVersion:"${version}"`);
  expect(raw).toEndWith('"}\n');
});

/** Runs `berth version`. */
async function run(...args: readonly string[]) {
  const argv = [process.execPath, join(import.meta.dirname, "main.ts"), "version", ...args];
  const child = Bun.spawn(argv, { stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { stdout, stderr, exitCode };
}

test("berth version -o json prints JSON", async () => {
  for (const args of [["-o", "json"], ["-ojson"], ["--output=json"]]) {
    const { stdout, exitCode } = await run(...args);
    expect([JSON.parse(stdout), exitCode]).toEqual([
      {
        version: "from source",
        gitCommit: "",
        kubernetesVersion: version,
        platform: expect.stringMatching(/^linux\/(amd64|arm64)$/),
      },
      0,
    ]);
  }
});

test("berth version rejects unknown arguments with exit code 2", async () => {
  expect(await run("-o", "yaml")).toEqual({
    stdout: "",
    stderr: 'berth version: --output: found "yaml", must be one of "text", "json"\n',
    exitCode: 2,
  });
  for (const wrong of ["now", "--short"]) {
    const { stdout, stderr, exitCode } = await run(wrong);
    expect([stdout, exitCode]).toEqual(["", 2]);
    expect(stderr).toContain(wrong);
  }
});

test("berth version prints Berth's own release", () => {
  expect(versionLine()).toBe("berth from source\n");
});
