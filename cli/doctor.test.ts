import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checks } from "./doctor/finding.ts";
import type { DoctorReport } from "./doctor/report.ts";

setDefaultTimeout(30_000);

const program = join(import.meta.dirname, "main.ts");

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-doctor-"));
});
afterEach(() => rm(folder, { recursive: true }));

async function doctor(...args: readonly string[]) {
  const child = Bun.spawn([process.execPath, program, "doctor", ...args], { stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { stdout, stderr, exitCode };
}

const ownFlags = () => [`--root-dir=${folder}/root`, `--container-runtime-endpoint=unix://${folder}/none.sock`];

test("the JSON describes this machine, and the exit code follows from the findings", async () => {
  const { stdout, stderr, exitCode } = await doctor("-o", "json", ...ownFlags());
  expect(stderr).toBe("");
  const { ok, machine, findings, ...rest } = JSON.parse(stdout) as DoctorReport;
  expect(rest).toEqual({});
  expect(machine).toMatchObject({
    system: expect.stringMatching(/./),
    architecture: expect.stringMatching(/^(amd64|arm64)$/),
    kernel: expect.stringMatching(/^\d+\.\d+/),
    cpus: expect.any(Number),
    memoryBytes: expect.any(Number),
    cgroupControllers: expect.any(Array),
    disks: expect.any(Array),
  });
  for (const { check, state, what, cure } of findings) {
    expect(checks).toContain(check);
    expect(["ok", "warning", "problem"]).toContain(state);
    expect(what).toMatch(/./);
    if (state === "problem") expect(cure).toMatch(/./);
  }
  const hasProblem = findings.some(({ state }) => state === "problem");
  expect({ ok, exitCode }).toEqual({ ok: !hasProblem, exitCode: hasProblem ? 1 : 0 });
  expect(findings).toContainEqual({
    check: "container-runtime",
    state: "problem",
    what: `unix://${folder}/none.sock does not exist: no container runtime runs there`,
    cure: expect.stringMatching(/./),
  });
});

test("a runtime that takes the connection and never answers is a problem, and delays nothing else", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(join(folder, "none.sock"), resolve));
  const { stdout, exitCode } = await doctor(...ownFlags());
  server.close();
  expect(stdout).toMatch(/^PROBLEM {2}container runtime {2}the container runtime at .* does not answer in time$/m);
  expect(stdout).toMatch(/^ok +disk space +.*\/root: .* free$/m);
  expect(exitCode).toBe(1);
});

test("an error in the configuration file is a problem with file and line, and the flags apply to the other checks", async () => {
  const file = join(folder, "kubelet.yaml");
  await writeFile(file, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPodz: 3\n");
  const { stdout, exitCode } = await doctor("--config", file, ...ownFlags());
  expect(stdout).toMatch(new RegExp(`^PROBLEM  configuration +${RegExp.escape(file)}:3: maxPodz: `, "m"));
  expect(stdout).toContain(`${folder}/none.sock does not exist`);
  expect(exitCode).toBe(1);
});

test.each([
  [["-o", "xml"], 'berth doctor: --output: found "xml", must be one of "text", "json"\n'],
  [["--fly"], "berth doctor: --fly: unknown flag; berth doctor --help lists the flags\n"],
  [["--version"], "berth doctor: --version is a flag of berth run\n"],
])("%j yields one line and exit code 2", async (args, stderr) => {
  expect(await doctor(...args)).toEqual({ stdout: "", stderr, exitCode: 2 });
});

test("--inventory prints board and disks", async () => {
  const { stdout, exitCode } = await doctor("--inventory");
  expect(JSON.parse(stdout)).toMatchObject({ board: expect.any(String), disks: expect.any(Array) });
  expect(exitCode).toBe(0);
});

test("--help prints the usage", async () => {
  const { stdout, exitCode } = await doctor("-h");
  expect([stdout.split("\n")[0], exitCode]).toEqual(["berth doctor [-o json] [the flags of berth run]", 0]);
});
