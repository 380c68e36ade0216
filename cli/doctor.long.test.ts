import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
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

/** Answers like an agent that was started in the folder with these arguments. */
function serveAgent(...argv: readonly string[]) {
  const commandLine = { pid: 4711, startedAt: new Date().toISOString(), argv, workingDirectory: folder };
  const status = { node: { name: "edge" }, runtime: { state: "ready" }, pods: {}, refused: 0 };
  return Bun.serve({
    unix: join(folder, "root", "berth.sock"),
    routes: { "/command-line": Response.json(commandLine), "/status": Response.json(status) },
  });
}

test("where an agent runs, its flags and files are checked and not the defaults, and flags given here replace them", async () => {
  await mkdir(join(folder, "root"));
  await mkdir(join(folder, "manifests"));
  const configuration = [
    "apiVersion: kubelet.config.k8s.io/v1beta1",
    "kind: KubeletConfiguration",
    `staticPodPath: ${folder}/manifests`,
    `containerRuntimeEndpoint: unix://${folder}/of-agent.sock`,
  ];
  await writeFile(join(folder, "kubelet.yaml"), configuration.join("\n"));
  const agent = serveAgent("--config", "kubelet.yaml", "--root-dir=root");
  const rootDir = `--root-dir=${folder}/root`;
  const [plain, replaced] = await Promise.all([
    doctor(rootDir),
    doctor(rootDir, `--container-runtime-endpoint=unix://${folder}/none.sock`),
  ]);
  await agent.stop();
  const whose =
    "^ok +configuration +that of the running agent \\(process 4711\\), which was started with --config and --root-dir";
  expect(plain.stdout).toMatch(new RegExp(`${whose}$`, "m"));
  expect(plain.stdout).toMatch(new RegExp(`^ok +configuration +${folder}/kubelet.yaml can be used$`, "m"));
  expect(plain.stdout).toMatch(new RegExp(`^ok +pod sources +${folder}/manifests$`, "m"));
  expect(plain.stdout).toContain(`unix://${folder}/of-agent.sock does not exist`);
  expect(plain.stdout).toMatch(/^ok +agent +runs as node edge: /m);
  expect(replaced.stdout).toMatch(new RegExp(`${whose}, and with --container-runtime-endpoint as given here$`, "m"));
  expect(replaced.stdout).toContain(`unix://${folder}/none.sock does not exist`);
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
