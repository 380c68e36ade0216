import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { execa } from "execa";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { builtBinary, keepsKernelTunables, kubeletConfiguration } from "../bed/agent.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf, script } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

const kubelet = join(dirname(builtBinary), "kubelet");
let node: TestNode;
let folder = "";

beforeAll(async () => {
  node = await startNode();
  folder = join(node.folder, "other");
  await mkdir(folder);
});

afterAll(async () => {
  await node.tearDown();
});

const run = (program: string, ...args: readonly string[]) =>
  execa(program, [...args], { reject: false, timeout: 60_000 });

/** Runs the agent with these lines as its configuration file. The agent is expected to refuse them and exit. */
async function withConfiguration(...lines: readonly string[]) {
  const file = join(folder, "kubelet.yaml");
  const header = ["apiVersion: kubelet.config.k8s.io/v1beta1", "kind: KubeletConfiguration"];
  await writeFile(file, [...header, ...lines, ""].join("\n"));
  const result = await run(
    builtBinary,
    "run",
    "--config",
    file,
    "--root-dir",
    join(folder, "root"),
    keepsKernelTunables,
  );
  return { ...result, file, lines: result.stderr.split("\n") };
}

describe("berth", () => {
  test("version prints one line", async () => {
    for (const argument of ["version", "--version"]) {
      const { stdout, exitCode } = await run(builtBinary, argument);
      expect([stdout, exitCode]).toEqual([expect.stringMatching(/^berth \d+\.\d+\.\d+ \([0-9a-f]{12}\+?\)$/), 0]);
    }
  });

  test("prints the Kubernetes version in kubeadm's format under the name kubelet", async () => {
    const { stdout, exitCode } = await run(kubelet, "--version");
    expect([stdout, exitCode]).toEqual([expect.stringMatching(/^Kubernetes v1\.\d+\.\d+$/), 0]);
    const raw = await run(kubelet, "--version=raw");
    expect([raw.stdout, raw.exitCode]).toEqual([expect.stringMatching(/^version\.Info\{Major:"1", .*\}$/), 0]);
    expect((await run(builtBinary, "run", "--version")).stdout).toStartWith("berth ");
  });

  test("without a command lists its commands", async () => {
    const { stdout, exitCode } = await run(builtBinary);
    expect(exitCode).toBe(0);
    // As the user has called it, so that each line can be pasted.
    for (const command of ["run", "pods", "status", "doctor", "version"])
      expect(stdout).toContain(`  ${builtBinary} ${command} `);
    const { stderr } = await run(builtBinary, "run", "--fly");
    expect(stderr).toBe(`--fly: unknown flag; ${builtBinary} run --help lists the flags`);
  });

  test("refuses an unknown command and names the existing ones", async () => {
    const { stderr, exitCode } = await run(builtBinary, "fly");
    expect([stderr, exitCode]).toEqual([
      'berth: unknown command "fly"; the commands are run, pods, explain, status, logs, exec, cni, doctor and version',
      2,
    ]);
  });

  test.each(["pods", "status"])(
    "%s names the socket on which no agent answers, and the likely cause",
    async (command) => {
      await writeFile(join(folder, "berth.sock"), "");
      for (const [root, why] of [
        ["/nowhere", "there is no such socket: is it running? --root-dir names its directory"],
        [folder, "connection refused: is it running?"],
      ] as const) {
        const { stderr, exitCode } = await run(builtBinary, command, "--root-dir", root);
        expect([stderr, exitCode]).toEqual([`berth ${command}: no agent answers on ${root}/berth.sock: ${why}`, 1]);
      }
    },
  );

  test.each([
    ["pods", "table"],
    ["status", "text"],
  ])("%s refuses an unknown output format", async (command, usual) => {
    const { stderr, exitCode } = await run(builtBinary, command, "-o", "xml");
    const why = `--output: found "xml", must be one of "${usual}", "json"`;
    expect([stderr, exitCode]).toEqual([`berth ${command}: ${why}`, 2]);
  });

  test.each([
    ["-n", "-n: needs a value: a string"],
    ["-n=", '--namespace: found "=", must be the name of a namespace'],
    ["--namespace=", '--namespace: found "", must be the name of a namespace'],
  ])("pods refuses %s", async (argument, why) => {
    const { stderr, exitCode } = await run(builtBinary, "pods", argument);
    expect([stderr, exitCode]).toEqual([`berth pods: ${why}`, 2]);
  });

  test("status shows a node without a cluster", async () => {
    const runStatus = (...more: readonly string[]) =>
      run(builtBinary, "status", "--root-dir", node.paths.agentRoot, ...more);
    await pollUntil("the runtime to be ready", 20_000, async () => (await runStatus()).stdout.includes("ready"));
    const { stdout, exitCode } = await runStatus();
    expect([stdout.replaceAll(/ {2,}/g, ": ").split("\n"), exitCode]).toEqual([
      [
        expect.stringMatching(/^node: berth, v1\.\d+\.\d+\+berth$/),
        "runtime: ready",
        "cluster: no cluster: pods come from files",
        "pods: none",
        "refused: none",
      ],
      0,
    ]);
    expect(JSON.parse((await runStatus("-o", "json")).stdout)).toEqual({
      node: { name: "berth", version: expect.any(String) },
      runtime: { state: "ready" },
      pods: {},
      states: {},
      refused: 0,
    });
  });
});

test("status counts the pods that are not ready by reason, and pods -n lists one namespace", async () => {
  const failing = script("echo no disk > /dev/termination-log; exit 3");
  const inShop = (pod: Pod): Pod => ({ ...pod, metadata: { ...pod.metadata, namespace: "shop" } });
  await node.putManifest(podOf("well"));
  await node.putManifest(inShop(podOf("loops", { command: failing })));
  const first = { name: "first", image: busyboxImage, command: failing };
  await node.putManifest(inShop(podOf("begins", {}, { initContainers: [first] })));
  await node.waitUntilRunning("well");
  for (const name of ["loops", "begins"])
    await node.waitForPod(
      name,
      "it is in its second back-off",
      (pod) => pod.restarts > 0 && pod.reason.endsWith("BackOff"),
    );

  const runBerth = async (...args: readonly string[]) =>
    (await run(builtBinary, ...args, "--root-dir", node.paths.agentRoot)).stdout;
  /** Retries, because between two back-offs the container runs for a moment. */
  const waitForOutput = (what: string, patterns: RegExp, ...args: readonly string[]) =>
    pollUntil(what, 30_000, async () => patterns.test(await runBerth(...args)));
  const pods = /^pods +3: 1 CrashLoopBackOff, 1 Init:CrashLoopBackOff, 1 Running$/m;
  await waitForOutput("their states", pods, "status");
  const notReady =
    /^not ready +2: 1 CrashLoopBackOff, 1 Init:CrashLoopBackOff \(\S+\/berth pods --root-dir \S+ shows why\)$/m;
  await waitForOutput("why they are not ready", notReady, "status");
  const row = (name: string, reason: string) => `shop +${name}-berth +0/1 +${reason} +[1-9].*\n`;
  const rows = row("begins", "Init:CrashLoopBackOff") + row("loops", "CrashLoopBackOff");
  const table = new RegExp(`^NAMESPACE .*\n${rows}\nbegins-berth: back-off .*exited with code 3`);
  for (const how of [["-n", "shop"], ["--namespace=shop"], ["-n=shop"]])
    await waitForOutput(`those of ${how.join(" ")} alone`, table, "pods", ...how);
  expect(await runBerth("pods", "-n", "none")).toBe("no pods in namespace none");
  for (const name of ["well", "loops", "begins"]) await node.removeFile(`${name}.yaml`);
  await node.waitUntilEmpty();
});

describe("a wrong flag is refused with exit code 2 and one line that names it:", () => {
  test.each([
    ["an unknown flag", ["--fly"], ["--fly"]],
    ["an invalid number", ["--max-pods=many"], ["--max-pods", "many"]],
    ["an invalid duration", ["--file-check-frequency=soon"], ["--file-check-frequency", "soon"]],
    ["a missing file", ["--config", "/nowhere/kubelet.yaml"], ["/nowhere/kubelet.yaml"]],
    ["a positional argument", ["start"], ["start"]],
    ["an invalid node name", ["--hostname-override", "my_node b"], ["--hostname-override", '"my_node b"', "RFC 1123"]],
  ])("%s", async (_, args, words) => {
    for (const [program, ...before] of [[builtBinary, "run"], [kubelet]]) {
      const { stderr, exitCode } = await run(program!, ...before, keepsKernelTunables, ...args);
      expect(exitCode).toBe(2);
      expect(stderr.split("\n")).toHaveLength(1);
      for (const word of words) expect(stderr).toContain(word);
    }
  });
});

describe("a wrong configuration is refused with exit code 2 and names file, line, field, value and allowed values:", () => {
  test.each([
    ["an unknown field", "maxPodz: 10", ["maxPodz", "maxPods"]],
    ["an invalid number", "maxPods: many", ["maxPods", "many", "integer"]],
    ["an invalid duration", "fileCheckFrequency: soon", ["fileCheckFrequency", "soon"]],
    [
      "an invalid enum value",
      "topologyManagerPolicy: sometimes",
      ["topologyManagerPolicy", "sometimes", "best-effort"],
    ],
    ["a number out of range", "imageGCHighThresholdPercent: 150", ["imageGCHighThresholdPercent", "150", "100"]],
  ])("%s", async (_, line, words) => {
    const { exitCode, lines, file } = await withConfiguration("staticPodPath: /etc/kubernetes/manifests", line);
    expect(exitCode).toBe(2);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toStartWith(`${file}:4: `);
    for (const word of words) expect(lines[0]).toContain(word);
  });

  test("two wrong fields give two lines", async () => {
    const { exitCode, lines, file } = await withConfiguration("maxPods: many", "port: 0x", "registryBurst: 5");
    expect(exitCode).toBe(2);
    expect(lines.map((line) => line.slice(0, file.length + 3))).toEqual([`${file}:3:`, `${file}:4:`]);
  });
});

test("a second agent on the same root directory exits with code 1 and names the first one", async () => {
  const argv = ["run", "--config", node.paths.agentConfig, "--root-dir", node.paths.agentRoot, keepsKernelTunables];
  const { stderr, exitCode } = await run(builtBinary, ...argv);
  expect(exitCode).toBe(1);
  const refusal = stderr.split("\n").at(-1);
  expect(refusal).toContain(`pid ${node.agent.pid},`);
  expect(refusal).toContain(node.paths.agentRoot);
  expect(refusal).toContain("with its own --root-dir and container runtime");
  await node.putManifest(podOf("first-lives"));
  await node.waitUntilRunning("first-lives");
  await node.removeFile("first-lives.yaml");
  await node.waitUntilEmpty();
});

test("a second agent on the same runtime exits with code 1, also with its own root directory, and names the first one", async () => {
  const other = join(folder, "second-root");
  const argv = ["run", "--config", node.paths.agentConfig, "--root-dir", other, keepsKernelTunables];
  const { stderr, exitCode } = await run(builtBinary, ...argv);
  expect(exitCode).toBe(1);
  const refusal = stderr.split("\n").at(-1);
  expect(refusal).toContain(`pid ${node.agent.pid}, node berth, root directory ${node.paths.agentRoot}`);
  expect(refusal).toContain("with its own runtime");
});

test("under the name kubelet it takes the kubelet's flags, which override the configuration file", async () => {
  await node.agent.stop();
  const [root, manifests, logs] = ["root", "manifests", "logs"].map((name) => join(folder, name));
  await mkdir(manifests!);
  const { agentConfig } = node.paths;
  const { endpoint } = node.containerd;
  await writeFile(
    agentConfig,
    kubeletConfiguration({ manifests: "/not/here", podLogs: logs!, endpoint: "unix:///not/here.sock" }),
  );
  const argv = [
    "--config",
    agentConfig,
    `--root-dir=${root}`,
    `--pod-manifest-path=${manifests}`,
    `--container-runtime-endpoint=${endpoint}`,
    "--hostname-override=Captain",
    "--v=4",
    keepsKernelTunables,
  ];
  const agent = spawn(kubelet, argv, { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  agent.stderr.setEncoding("utf8").on("data", (text) => {
    log += text;
  });
  try {
    await writeFile(join(manifests!, "web.json"), JSON.stringify(podOf("web")));
    const waitForOutput = await pollUntil("the pod to run", 20_000, async () => {
      const { stdout } = await run(builtBinary, "pods", "--root-dir", root!, "-o", "json");
      return stdout.includes('"phase":"Running"') && stdout;
    });
    expect(waitForOutput).toContain('"name":"web-captain"');
    expect(log).toContain("debug");
    expect(await readFile(join(root!, "berth.lock"), "utf8")).toBe(`pid ${agent.pid}, node captain\n`);
  } finally {
    agent.kill("SIGTERM");
    await new Promise((resolve) => agent.once("exit", resolve));
  }
  expect(agent.exitCode).toBe(0);
});
