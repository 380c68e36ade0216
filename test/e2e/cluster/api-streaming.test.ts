import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Node as NodeObject } from "../../../proto/kubernetes/gen/types.ts";
import { webImage, webPage } from "../../bed/images/images.ts";
import { unpackPackages } from "../../bed/packages.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { freePort } from "../free-port.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "./node.ts";

setDefaultTimeout(90_000);

const skip = skipWithoutPrograms("exec, attach, cp and port-forward by kubectl");

async function write({ stdin }: Bun.Subprocess, text: string): Promise<void> {
  const sink = stdin as Bun.FileSink;
  sink.write(text);
  await sink.flush();
}

/** How kubectl speaks to the API server. */
const protocols = {
  WebSockets: { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: "true", KUBECTL_PORT_FORWARD_WEBSOCKETS: "true" },
  SPDY: { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: "false", KUBECTL_PORT_FORWARD_WEBSOCKETS: "false" },
} as const;

describe.skipIf(skip !== undefined)("kubectl", () => {
  let cluster: ClusterNode;
  let program: string;
  let folder: string;

  beforeAll(async () => {
    program = join((await unpackPackages("forky")).root, "usr/bin/kubectl");
    folder = await mkdtemp(join(tmpdir(), "berth-kubectl-"));
    cluster = await startClusterNode();
    const command = ["sh", "-c", "while read line; do echo got $line; done; exec sleep 1000"];
    await cluster.create([
      barePod("web", { name: "app", image: webImage, command: ["httpd", "-f", "-p", "8080", "-h", "/www"] }),
      barePod("reader", { name: "app", command, stdin: true }),
    ]);
    for (const app of ["web", "reader"])
      await cluster.waitForPods("run", app, (pods) => pods.length > 0 && pods.every(areContainersReady));
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await cluster?.tearDown();
    await rm(folder, { recursive: true });
  });

  const start = (
    env: Readonly<Record<string, string>>,
    args: readonly string[],
    stdin: Uint8Array | "pipe" | "ignore",
  ) =>
    Bun.spawn([program, `--kubeconfig=${cluster.plane.adminKubeconfig}`, `--cache-dir=${folder}/cache`, ...args], {
      stdin,
      stdout: "pipe",
      stderr: "pipe",
      env: { ...process.env, ...env },
    });
  async function run(
    env: Readonly<Record<string, string>>,
    args: readonly string[],
    stdin: Uint8Array | "ignore" = "ignore",
  ) {
    const child = start(env, args, stdin);
    const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    return { stdout, stderr, exitCode };
  }

  function tests(env: Readonly<Record<string, string>>): void {
    test("exec shows output and errors, and ends with the exit code", async () => {
      const { stdout, stderr, exitCode } = await run(env, [
        "exec",
        "web",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 7",
      ]);
      expect([stdout, stderr, exitCode]).toEqual(["out\n", "err\ncommand terminated with exit code 7\n", 7]);
    });

    test("exec -i passes 50 MB of stdin and its end", async () => {
      const sent = Buffer.alloc(50_000_000, "kubectl exec ");
      const { stdout, exitCode } = await run(env, ["exec", "-i", "web", "--", "md5sum"], sent);
      expect([stdout, exitCode]).toEqual([`${createHash("md5").update(sent).digest("hex")}  -\n`, 0]);
    });

    test("exec of a missing program, and in a missing container, say why", async () => {
      expect((await run(env, ["exec", "web", "--", "/missing"])).stderr).toContain("no such file or directory");
      expect((await run(env, ["exec", "web", "-c", "other", "--", "true"])).stderr).toContain("other");
    });

    test("cp copies files both ways unchanged", async () => {
      const sent = randomBytes(20_000_000);
      await writeFile(join(folder, "sent"), sent);
      expect(await run(env, ["cp", join(folder, "sent"), "web:/tmp/copied"])).toMatchObject({ exitCode: 0 });
      expect(await run(env, ["cp", "web:/tmp/copied", join(folder, "back")])).toMatchObject({ exitCode: 0 });
      expect((await readFile(join(folder, "back"))).equals(sent)).toBe(true);
    });

    test("attach reads and writes the main process", async () => {
      const child = start(env, ["attach", "-i", "reader"], "pipe");
      await write(child, "hello\n");
      const reader = child.stdout.getReader();
      let text = "";
      while (!text.includes("got hello")) text += new TextDecoder().decode((await reader.read()).value);
      child.kill();
      await child.exited;
    });

    test("port-forward carries 50 requests at once, and reports a port that nothing listens on", async () => {
      const port = await freePort();
      const child = start(env, ["port-forward", "web", `${port}:8080`, `${port + 1}:81`], "ignore");
      const stderr = child.stderr.text();
      const page = async (from: number) => (await fetch(`http://127.0.0.1:${from}/`, { keepalive: false })).text();
      await pollUntil("port-forward to listen", 10_000, () => page(port).then(Boolean, () => false));
      const pages = await Promise.all(Array.from({ length: 50 }, () => page(port)));
      expect(new Set(pages)).toEqual(new Set([webPage]));
      await page(port + 1).catch(() => "refused");
      child.kill();
      await child.exited;
      expect(await stderr).toContain("connection refused");
    });

    test("a client that is killed leaves no process and no descriptor of the agent behind", async () => {
      const descriptors = async () => (await readdir(`/proc/${cluster.node.agent.pid}/fd`)).length;
      const before = await descriptors();
      const children = Array.from({ length: 5 }, () => start(env, ["exec", "-i", "web", "--", "cat"], "pipe"));
      for (const child of children) {
        await write(child, "ping\n");
        await child.stdout.getReader().read();
      }
      for (const child of children) child.kill("SIGKILL");
      const cats = async () => (await run(env, ["exec", "web", "--", "pidof", "cat"])).stdout;
      await pollUntil("the end of the processes", 15_000, async () => (await cats()) === "");
      await pollUntil("no descriptor more", 15_000, async () => (await descriptors()) <= before);
    });
  }

  describe("with a node that declares ExtendWebSocketsToKubelet", () => {
    test("declares it", async () => {
      expect(await declaredFeatures()).toContain("ExtendWebSocketsToKubelet");
    });
    for (const [name, env] of Object.entries(protocols)) describe(`by ${name}`, () => tests(env));
  });

  describe("with a node that does not", () => {
    beforeAll(async () => {
      await cluster.node.agent.stop();
      await cluster.node.startAgent({ featureGates: { ExtendWebSocketsToKubelet: false } });
      await pollUntil(
        "the node's status",
        30_000,
        async () => !(await declaredFeatures()).includes("ExtendWebSocketsToKubelet"),
      );
    });
    describe("by WebSockets, which the API server translates", () => tests(protocols.WebSockets));
  });

  async function declaredFeatures(): Promise<readonly string[]> {
    const node = JSON.parse(await cluster.kubectl("get", "node", "node-a", "--output=json")) as NodeObject;
    return node.status?.declaredFeatures ?? [];
  }
});
