import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import type { Node as NodeObject } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage, webPage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { KubectlVersion } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { freePort } from "../free-port.ts";
import { addedDescriptors, descriptorsOf } from "./descriptors.ts";
import type { KubectlClient, StreamingProtocol } from "./kubectl-client.ts";
import { SLOW_PORT, type StreamingCluster, startStreamingCluster, UDP_PORT } from "./streaming-cluster.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("exec, attach, cp, port-forward and debug by kubectl");
const MB = 1_000_000;
const VERSIONS: readonly KubectlVersion[] = ["1.36", "1.32"];
const PROTOCOLS: readonly StreamingProtocol[] = ["WebSockets", "SPDY"];

async function write({ stdin }: Bun.Subprocess, text: string): Promise<void> {
  const sink = stdin as Bun.FileSink;
  sink.write(text);
  await sink.flush();
}

/** Resolves when the output of a program contains the text. */
async function reads({ stdout }: { readonly stdout: ReadableStream<Uint8Array> }, text: string): Promise<void> {
  const reader = stdout.getReader();
  const decoder = new TextDecoder();
  let received = "";
  while (!received.includes(text)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the output ends without ${text}: ${received}`);
    received += decoder.decode(value, { stream: true });
  }
  reader.releaseLock();
}

/** Connects to a port that kubectl forwards. */
async function dial(port: number): Promise<Socket> {
  const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  return socket;
}

describe.skipIf(skip !== undefined)("kubectl", () => {
  let cluster: StreamingCluster;

  beforeAll(async () => {
    cluster = await startStreamingCluster();
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  describe("with a node that declares ExtendWebSocketsToKubelet", () => {
    test("declares it", async () => {
      expect(await declaredFeatures()).toContain("ExtendWebSocketsToKubelet");
    });
    for (const version of VERSIONS) {
      for (const protocol of PROTOCOLS)
        describe(`of version ${version} by ${protocol}`, () => testClient(version, protocol));
      describe(`of version ${version}`, () => testVersion(version));
    }
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
    describe("by WebSockets, which the API server translates", () => testClient("1.36", "WebSockets"));
  });

  async function declaredFeatures(): Promise<readonly string[]> {
    const node = JSON.parse(await cluster.kubectl("get", "node", "node-a", "--output=json")) as NodeObject;
    return node.status?.declaredFeatures ?? [];
  }

  function testClient(version: KubectlVersion, protocol: StreamingProtocol): void {
    let kubectl: KubectlClient;
    beforeAll(async () => {
      kubectl = await cluster.client(version, protocol);
    });
    const given = () => ({ cluster, kubectl });
    testExec(given);
    testCopies(given);
    testTerminal(given);
    testPortForward(given);
    testVanishedClients(given);
  }

  /** What does not depend on the protocol. */
  function testVersion(version: KubectlVersion): void {
    test("port-forward refuses a port that the pod declares as UDP", async () => {
      const kubectl = await cluster.client(version, "WebSockets");
      const { stderr, exitCode } = await kubectl.run(["port-forward", "idle", `:${UDP_PORT}`]);
      expect([stderr, exitCode]).toEqual([`error: UDP protocol is not supported for ${UDP_PORT}\n`, 1]);
    });

    test("debug -it attaches a terminal to an ephemeral container, which sees the processes of its target", async () => {
      const kubectl = await cluster.client(version, "WebSockets");
      const name = `debugger-${version.replace(".", "-")}`;
      const options = [`--image=${busyboxImage}`, "--target=app", `--container=${name}`, "--profile=general"];
      const terminal = kubectl.startInTerminal(["debug", "-it", "idle", ...options], 120, 40);
      // The prompt of busybox comes before or after kubectl has attached.
      await terminal.sees("If you don't see a command prompt, try pressing enter.");
      terminal.type("\r");
      await terminal.sees("/ #");
      terminal.type("ps -o args | grep [s]leep; stty size\r");
      await terminal.sees("sleep 1000000");
      await terminal.sees("40 120");
      terminal.type("exit 3\r");
      await terminal.exited;
      await cluster.waitForPods("end of the debugger", "idle", ([pod]) => {
        const status = pod?.status?.ephemeralContainerStatuses?.find((each) => each.name === name);
        return status?.state?.terminated?.exitCode === 3;
      });
    });
  }
});

type Given = () => { readonly cluster: StreamingCluster; readonly kubectl: KubectlClient };

function testExec(given: Given): void {
  test("exec shows output and errors, and ends with the exit code", async () => {
    const { kubectl } = given();
    const command = ["sh", "-c", "echo out; echo err >&2; exit 7"];
    const { stdout, stderr, exitCode } = await kubectl.run(["exec", "web", "--", ...command]);
    expect([stdout, stderr, exitCode]).toEqual(["out\n", "err\ncommand terminated with exit code 7\n", 7]);
  });

  test("exec ends with 128 and the signal that has ended the command", async () => {
    const { kubectl } = given();
    const endedBy = (signal: string) => kubectl.run(["exec", "web", "--", "sh", "-c", `kill -${signal} $$`]);
    expect((await Promise.all(["TERM", "KILL"].map(endedBy))).map(({ exitCode }) => exitCode)).toEqual([143, 137]);
  });

  test("exec -i passes 10 MB of stdin and its end", async () => {
    const { kubectl } = given();
    const sent = Buffer.alloc(10 * MB, "kubectl exec ");
    const { stdout, exitCode } = await kubectl.run(["exec", "-i", "web", "--", "md5sum"], sent);
    expect([stdout, exitCode]).toEqual([`${createHash("md5").update(sent).digest("hex")}  -\n`, 0]);
  });

  test("exec of a missing program, and in a missing container, say why", async () => {
    const { kubectl } = given();
    expect((await kubectl.run(["exec", "web", "--", "/missing"])).stderr).toContain("no such file or directory");
    expect((await kubectl.run(["exec", "web", "-c", "other", "--", "true"])).stderr).toContain("other");
  });

  test("attach reads and writes the main process", async () => {
    const child = given().kubectl.start(["attach", "-i", "reader"], "pipe");
    await write(child, "hello\n");
    await reads(child, "got hello");
    child.kill();
    await child.exited;
  });
}

function testCopies(given: Given): void {
  test("cp copies 10 MB both ways unchanged", async () => {
    const { cluster, kubectl } = given();
    const [here, back] = ["sent", "back"].map((name) => join(cluster.folder, name));
    const sent = randomBytes(10 * MB);
    await writeFile(here ?? "", sent);
    expect(await kubectl.run(["cp", here ?? "", "web:/tmp/copied"])).toMatchObject({ exitCode: 0 });
    expect(await kubectl.run(["cp", "web:/tmp/copied", back ?? ""])).toMatchObject({ exitCode: 0 });
    expect((await readFile(back ?? "")).equals(sent)).toBe(true);
  });
}

function testTerminal(given: Given): void {
  test("exec -it gives the command a terminal of the client's size, which follows it, and passes Ctrl-C on", async () => {
    const command = "trap 'stty size' WINCH; echo ready; while true; do stty size; sleep 0.1; done";
    const terminal = given().kubectl.startInTerminal(["exec", "-it", "web", "--", "sh", "-c", command], 99, 33);
    await terminal.sees("ready");
    await terminal.sees("33 99");
    terminal.resize(50, 20);
    await terminal.sees("20 50");
    terminal.type("\u0003");
    await terminal.sees("command terminated with exit code 130");
    expect(await terminal.exited).toBe(130);
  });
}

/** Forwards ports of a pod, given as `LOCAL:REMOTE`, and returns once the first of them is forwarded. */
async function forward({ kubectl }: ReturnType<Given>, pod: string, ...ports: readonly string[]) {
  const child = kubectl.start(["port-forward", pod, ...ports], "ignore");
  await reads(child, "Forwarding from");
  return {
    /** Ends kubectl and returns its error output. */
    async end(signal: NodeJS.Signals = "SIGTERM"): Promise<string> {
      child.kill(signal);
      await child.exited;
      return await child.stderr.text();
    },
  };
}

function testPortForward(given: Given): void {
  test("port-forward carries 100 requests at once, and reports a port that nothing listens on", async () => {
    const port = await freePort();
    const forwarded = await forward(given(), "web", `${port}:8080`, `${port + 1}:81`);
    const page = async (from: number) => (await fetch(`http://127.0.0.1:${from}/`, { keepalive: false })).text();
    const pages = await Promise.all(Array.from({ length: 100 }, () => page(port)));
    expect(new Set(pages)).toEqual(new Set([webPage]));
    await page(port + 1).catch(() => "refused");
    expect(await forwarded.end()).toContain("connection refused");
  });

  test("port-forward brings the whole answer to clients that have ended their half, and then the pod's end", async () => {
    const port = await freePort();
    const forwarded = await forward(given(), "slow", `${port}:${SLOW_PORT}`);
    const open = async () => {
      const socket = await dial(port);
      let text = "";
      socket.on("data", (bytes) => {
        text += bytes;
      });
      await pollUntil("the pod to be ready", 15_000, () => text === "ready\n");
      return async (word: string) => {
        socket.end(`${word}\n`);
        await once(socket, "close");
        return text;
      };
    };
    const words = Array.from({ length: 10 }, (_, index) => `word-${index}`);
    // One after the other: the queue of a busybox server has room for two connections.
    const asks: Awaited<ReturnType<typeof open>>[] = [];
    for (const _ of words) asks.push(await open());
    expect(await Promise.all(words.map((word, index) => asks[index]!(word)))).toEqual(
      words.map((word) => `ready\nanswer to ${word}\n`),
    );
    await forwarded.end();
  });
}

function testVanishedClients(given: Given): void {
  test("clients that are killed leave no process, and no descriptor of the agent and the runtime, behind", async () => {
    const { cluster, kubectl } = given();
    const processes = { agent: cluster.node.agent.pid, runtime: cluster.node.containerd.pid };
    const before = { agent: await descriptorsOf(processes.agent), runtime: await descriptorsOf(processes.runtime) };
    const execs = Array.from({ length: 5 }, () => kubectl.start(["exec", "-i", "web", "--", "cat"], "pipe"));
    const attached = kubectl.start(["attach", "-i", "reader"], "pipe");
    const port = await freePort();
    const forwarded = await forward(given(), "slow", `${port}:${SLOW_PORT}`);
    const sockets = await Promise.all(Array.from({ length: 5 }, () => dial(port)));
    for (const child of execs) {
      await write(child, "ping\n");
      await reads(child, "ping");
    }
    await write(attached, "again\n");
    await reads(attached, "got again");
    const running = async (pod: string, name: string) =>
      (await kubectl.run(["exec", pod, "--", "pidof", name])).stdout.trim().split(" ").filter(Boolean).length;
    expect(await running("web", "cat")).toBe(5);
    await pollUntil("the connections in the pod", 15_000, async () => (await running("slow", "sh")) === 5);
    for (const child of [...execs, attached]) child.kill("SIGKILL");
    await forwarded.end("SIGKILL");
    for (const socket of sockets) socket.destroy();
    await pollUntil("the end of the commands", 15_000, async () => (await running("web", "cat")) === 0);
    await pollUntil("the end of the connections in the pod", 15_000, async () => (await running("slow", "sh")) === 0);
    for (const who of ["agent", "runtime"] as const) {
      let added: readonly string[] = [];
      const isAsBefore = async () => {
        const now = await descriptorsOf(processes[who]);
        added = addedDescriptors(before[who], now);
        return now.length <= before[who].length;
      };
      await pollUntil("no more descriptors", 15_000, isAsBefore).catch((error: Error) => {
        throw new Error(`${who}: ${error.message}; added: ${added.join(", ")}`);
      });
    }
  });
}
