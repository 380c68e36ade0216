import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { execa } from "execa";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { builtBinary, kubeletConfiguration } from "../bed/agent.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { until } from "../bed/poll-until.ts";
import { podOf, script } from "./manifest.ts";
import { type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

const kubelet = join(dirname(builtBinary), "kubelet");
let node: Node;
let folder = "";

beforeAll(async () => {
  node = await startNode();
  folder = join(node.folder, "other");
  await mkdir(folder);
});

afterAll(async () => {
  await node.end();
});

const run = (program: string, ...args: readonly string[]) =>
  execa(program, [...args], { reject: false, timeout: 20_000 });

/** Runs the agent with these lines as its configuration file; it is expected to refuse. */
async function withConfiguration(...lines: readonly string[]) {
  const file = join(folder, "kubelet.yaml");
  const header = ["apiVersion: kubelet.config.k8s.io/v1beta1", "kind: KubeletConfiguration"];
  await writeFile(file, [...header, ...lines, ""].join("\n"));
  const result = await run(builtBinary, "run", "--config", file, "--root-dir", join(folder, "root"));
  return { ...result, file, lines: result.stderr.split("\n") };
}

describe("berth", () => {
  test("version is one line", async () => {
    for (const argument of ["version", "--version"]) {
      const { stdout, exitCode } = await run(builtBinary, argument);
      expect([stdout, exitCode]).toEqual([expect.stringMatching(/^berth \d+\.\d+\.\d+ \([0-9a-f]{12}\+?\)$/), 0]);
    }
  });

  test("under the name kubelet says which Kubernetes it is, as kubeadm reads it", async () => {
    const { stdout, exitCode } = await run(kubelet, "--version");
    expect([stdout, exitCode]).toEqual([expect.stringMatching(/^Kubernetes v1\.\d+\.\d+$/), 0]);
    const raw = await run(kubelet, "--version=raw");
    expect([raw.stdout, raw.exitCode]).toEqual([expect.stringMatching(/^version\.Info\{Major:"1", .*\}$/), 0]);
    expect((await run(builtBinary, "run", "--version")).stdout).toStartWith("berth ");
  });

  test("without a command says which there are", async () => {
    const { stdout, exitCode } = await run(builtBinary);
    expect(exitCode).toBe(0);
    for (const command of ["berth run", "berth pods", "berth status", "berth version"])
      expect(stdout).toContain(command);
  });

  test("refuses a command that does not exist, and names those that do", async () => {
    const { stderr, exitCode } = await run(builtBinary, "fly");
    expect([stderr, exitCode]).toEqual([
      'berth: there is no command "fly"; there are run, pods, status and version',
      2,
    ]);
  });

  test.each(["pods", "status"])("%s says where no agent answers, and what may be wrong", async (command) => {
    await writeFile(join(folder, "berth.sock"), "");
    for (const [root, why] of [
      ["/nowhere", "there is no such socket: is it running, and with this --root-dir?"],
      [folder, "nobody listens there: is it running?"],
    ] as const) {
      const { stderr, exitCode } = await run(builtBinary, command, "--root-dir", root);
      expect([stderr, exitCode]).toEqual([`berth ${command}: no agent answers on ${root}/berth.sock: ${why}`, 1]);
    }
  });

  test.each([
    ["pods", "table"],
    ["status", "text"],
  ])("%s refuses a format that it does not know", async (command, usual) => {
    const { stderr, exitCode } = await run(builtBinary, command, "-o", "xml");
    expect([stderr, exitCode]).toEqual([`berth ${command}: -o takes ${usual} or json, found xml`, 2]);
  });

  test.each([
    ["-n", "Option '-n, --namespace <value>' argument missing"],
    ["-n=", "-n takes the name of a namespace, found nothing"],
    ["--namespace=", "-n takes the name of a namespace, found nothing"],
  ])("pods refuses %s", async (argument, why) => {
    const { stderr, exitCode } = await run(builtBinary, "pods", argument);
    expect([stderr, exitCode]).toEqual([`berth pods: ${why}`, 2]);
  });

  test("status says how a node that stands alone does", async () => {
    const ask = (...more: readonly string[]) => run(builtBinary, "status", "--root-dir", node.paths.agentRoot, ...more);
    await until("the runtime to be ready", 20_000, async () => (await ask()).stdout.includes("ready"));
    const { stdout, exitCode } = await ask();
    expect([stdout.replaceAll(/ {2,}/g, ": ").split("\n"), exitCode]).toEqual([
      [
        expect.stringMatching(/^node: berth, v1\.\d+\.\d+\+berth$/),
        "runtime: ready",
        "cluster: no cluster: pods come from files",
        "pods: none",
        "refused: no manifests",
      ],
      0,
    ]);
    expect(JSON.parse((await ask("-o", "json")).stdout)).toEqual({
      node: { name: "berth", version: expect.any(String) },
      runtime: { state: "ready" },
      pods: {},
      refused: 0,
    });
  });
});

test("what is wrong with pods is told in a word by status, and of one namespace alone by pods -n", async () => {
  const failing = script("echo no disk > /dev/termination-log; exit 3");
  const inShop = (pod: Pod): Pod => ({ ...pod, metadata: { ...pod.metadata, namespace: "shop" } });
  await node.put(podOf("well"));
  await node.put(inShop(podOf("loops", { command: failing })));
  const first = { name: "first", image: busyboxImage, command: failing };
  await node.put(inShop(podOf("begins", {}, { initContainers: [first] })));
  await node.running("well");
  for (const name of ["loops", "begins"])
    await node.pod(name, "it is in its second back-off", (pod) => pod.restarts > 0 && pod.reason.endsWith("BackOff"));

  const ask = async (...args: readonly string[]) =>
    (await run(builtBinary, ...args, "--root-dir", node.paths.agentRoot)).stdout;
  /** Between two back-offs a container runs for a moment. */
  const shown = (what: string, words: RegExp, ...args: readonly string[]) =>
    until(what, 30_000, async () => words.test(await ask(...args)));
  const pods = /^pods +3: 2 Running, 1 Pending$/m;
  await shown("their phases", pods, "status");
  const unwell = /^unwell +2: 1 CrashLoopBackOff, 1 Init:CrashLoopBackOff \(berth pods says more\)$/m;
  await shown("what is wrong with them", unwell, "status");
  const row = (name: string, reason: string) => `shop +${name}-berth +0/1 +${reason} +[1-9].*\n`;
  const rows = row("begins", "Init:CrashLoopBackOff") + row("loops", "CrashLoopBackOff");
  const table = new RegExp(`^NAMESPACE .*\n${rows}\nbegins-berth: back-off .*exited with code 3`);
  for (const how of [["-n", "shop"], ["--namespace=shop"], ["-n=shop"]])
    await shown(`those of ${how.join(" ")} alone`, table, "pods", ...how);
  expect(await ask("pods", "-n", "none")).toBe("no pods in namespace none");
  for (const name of ["well", "loops", "begins"]) await node.removeFile(`${name}.yaml`);
  await node.empty();
});

describe("a wrong flag is refused with exit code 2, in one line that names it:", () => {
  test.each([
    ["one that does not exist", ["--fly"], ["--fly"]],
    ["a number that is none", ["--max-pods=many"], ["--max-pods", "many"]],
    ["a duration that is none", ["--file-check-frequency=soon"], ["--file-check-frequency", "soon"]],
    ["a file that is not there", ["--config", "/nowhere/kubelet.yaml"], ["/nowhere/kubelet.yaml"]],
    ["an argument that belongs to no flag", ["start"], ["start"]],
    [
      "a name that no node may have",
      ["--hostname-override", "my_node b"],
      ["--hostname-override", '"my_node b"', "RFC 1123"],
    ],
  ])("%s", async (_, args, words) => {
    for (const [program, ...before] of [[builtBinary, "run"], [kubelet]]) {
      const { stderr, exitCode } = await run(program!, ...before, ...args);
      expect(exitCode).toBe(2);
      expect(stderr.split("\n")).toHaveLength(1);
      for (const word of words) expect(stderr).toContain(word);
    }
  });
});

describe("a wrong configuration is refused with exit code 2, naming file, line, field, what was found and what is allowed:", () => {
  test.each([
    ["a field that does not exist", "maxPodz: 10", ["maxPodz", "maxPods"]],
    ["a number that is none", "maxPods: many", ["maxPods", "many", "integer"]],
    ["a duration that is none", "fileCheckFrequency: soon", ["fileCheckFrequency", "soon"]],
    [
      "a word that is not one of some",
      "topologyManagerPolicy: sometimes",
      ["topologyManagerPolicy", "sometimes", "best-effort"],
    ],
    ["a number out of its range", "imageGCHighThresholdPercent: 150", ["imageGCHighThresholdPercent", "150", "100"]],
  ])("%s", async (_, line, words) => {
    const { exitCode, lines, file } = await withConfiguration("staticPodPath: /etc/kubernetes/manifests", line);
    expect(exitCode).toBe(2);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toStartWith(`${file}:4: `);
    for (const word of words) expect(lines[0]).toContain(word);
  });

  test("two wrong fields are two lines", async () => {
    const { exitCode, lines, file } = await withConfiguration("maxPods: many", "port: 0x", "registryBurst: 5");
    expect(exitCode).toBe(2);
    expect(lines.map((line) => line.slice(0, file.length + 3))).toEqual([`${file}:3:`, `${file}:4:`]);
  });
});

test("a second agent on one root directory is refused with exit code 1 and names the first", async () => {
  const argv = ["run", "--config", node.paths.agentConfig, "--root-dir", node.paths.agentRoot];
  const { stderr, exitCode } = await run(builtBinary, ...argv);
  expect(exitCode).toBe(1);
  const refusal = stderr.split("\n").at(-1);
  expect(refusal).toContain(`pid ${node.agent.pid},`);
  expect(refusal).toContain(node.paths.agentRoot);
  expect(refusal).toContain("a container runtime of its own");
  await node.put(podOf("first-lives"));
  await node.running("first-lives");
  await node.removeFile("first-lives.yaml");
  await node.empty();
});

test("a second agent on one runtime is refused whatever its root directory, and names the first and its root directory", async () => {
  const other = join(folder, "second-root");
  const { stderr, exitCode } = await run(builtBinary, "run", "--config", node.paths.agentConfig, "--root-dir", other);
  expect(exitCode).toBe(1);
  const refusal = stderr.split("\n").at(-1);
  expect(refusal).toContain(`pid ${node.agent.pid}, node berth, root directory ${node.paths.agentRoot}`);
  expect(refusal).toContain("a runtime of its own");
});

test("under the name kubelet it takes the kubelet's flags, over the configuration file, to the same effect", async () => {
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
  ];
  const agent = spawn(kubelet, argv, { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  agent.stderr.setEncoding("utf8").on("data", (text) => {
    log += text;
  });
  try {
    await writeFile(join(manifests!, "web.json"), JSON.stringify(podOf("web")));
    const shown = await until("the pod to run", 20_000, async () => {
      const { stdout } = await run(builtBinary, "pods", "--root-dir", root!, "-o", "json");
      return stdout.includes('"phase":"Running"') && stdout;
    });
    expect(shown).toContain('"name":"web-captain"');
    expect(log).toContain("debug");
    expect(await readFile(join(root!, "berth.lock"), "utf8")).toBe(`pid ${agent.pid}, node captain\n`);
  } finally {
    agent.kill("SIGTERM");
    await new Promise((resolve) => agent.once("exit", resolve));
  }
  expect(agent.exitCode).toBe(0);
});
