import { afterEach, beforeEach, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pollUntil } from "../test/bed/poll-until.ts";

const program = join(import.meta.dirname, "main.ts");
const listing = `${JSON.stringify({ pods: [] })}\n`;
const headers = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
const chunk = `${listing.length.toString(16)}\r\n${listing}\r\n`;

let folder: string;
let agent: Server | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-pods-"));
});
afterEach(async () => {
  agent?.close();
  agent = undefined;
  await rm(folder, { recursive: true });
});

/** A fake agent that handles each request like this. */
async function serve(respond: (socket: Socket) => void): Promise<void> {
  agent = createServer((socket) => socket.once("data", () => respond(socket)));
  await new Promise<void>((resolve) => agent?.listen(join(folder, "berth.sock"), resolve));
}

/** Runs `berth pods` to its end; `seen` is called after its first output. */
async function pods(seen: () => void, ...args: readonly string[]) {
  const argv = [process.execPath, program, "pods", "--root-dir", folder, ...args];
  const child = Bun.spawn(argv, { stdout: "pipe", stderr: "pipe" });
  let stdout = "";
  const reading = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      if (stdout === "") seen();
      stdout += text;
    }
  })();
  const [stderr, exitCode] = await Promise.all([child.stderr.text(), child.exited, reading]);
  return { stdout, stderr, exitCode };
}

const endings: readonly (readonly [sentence: string, end: (socket: Socket) => void])[] = [
  ["is stopped, which ends its connections", (socket) => socket.destroy()],
  ["is killed, which resets them", (socket) => socket.resetAndDestroy()],
  ["ends its response", (socket) => socket.end("0\r\n\r\n")],
  ["is killed in the middle of a line", (socket) => socket.end('4\r\n{"po\r\n')],
];
for (const [sentence, end] of endings)
  test(`a watch prints one line and exits with code 1 if the agent ${sentence}`, async () => {
    let watcher: Socket | undefined;
    await serve((socket) => {
      watcher = socket;
      socket.write(headers + chunk);
    });
    const { stdout, stderr, exitCode } = await pods(() => watcher && end(watcher), "--watch", "-o", "json");
    expect({ stdout, stderr, exitCode }).toEqual({
      stdout: listing,
      stderr: "berth pods: the agent has ended\n",
      exitCode: 1,
    });
  });

test("an agent that closes the connection before its response yields one plain line and exit code 1", async () => {
  await serve((socket) => socket.destroy());
  for (const more of [[], ["--watch"]]) {
    const { stdout, stderr, exitCode } = await pods(() => {}, ...more);
    expect({ stdout, stderr, exitCode }).toEqual({
      stdout: "",
      stderr: `berth pods: no agent answers on ${folder}/berth.sock: the connection was closed: it has just exited\n`,
      exitCode: 1,
    });
  }
});

test("an agent that responds with an error yields one line with its status and exit code 1", async () => {
  await serve((socket) => socket.end("HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
  const { stdout, stderr, exitCode } = await pods(() => {});
  expect({ stdout, stderr, exitCode }).toEqual({
    stdout: "",
    stderr: `berth pods: the agent on ${folder}/berth.sock responded with HTTP 500\n`,
    exitCode: 1,
  });
});

test("an agent that never responds yields one line after five seconds and exit code 1", async () => {
  await serve(() => {});
  const ends = await Promise.all([pods(() => {}), pods(() => {}, "--watch")]);
  for (const { stdout, stderr, exitCode } of ends)
    expect({ stdout, stderr, exitCode }).toEqual({
      stdout: "",
      stderr: `berth pods: no agent answers on ${folder}/berth.sock: no response within 5 s: is it stopped, or the machine overloaded?\n`,
      exitCode: 1,
    });
}, 30_000);

test("a watch of one namespace omits the pods and changes of others", async () => {
  const pod = (namespace: string, restarts: number) => ({ namespace, name: "web", restarts });
  const listings = [
    { pods: [pod("shop", 0), pod("other", 0)] },
    { pods: [pod("shop", 0), pod("other", 1)] },
    { pods: [pod("shop", 1), pod("other", 1)] },
  ];
  await serve((socket) => {
    const lines = listings.map((each) => `${JSON.stringify(each)}\n`).join("");
    socket.end(`${headers}${lines.length.toString(16)}\r\n${lines}\r\n0\r\n\r\n`);
  });
  const { stdout } = await pods(() => {}, "--watch", "-o", "json", "-n", "shop");
  const shown = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(shown).toEqual([{ pods: [pod("shop", 0)] }, { pods: [pod("shop", 1)] }]);
});

/** The response to one request, with these pods. */
function respondWith(...pods: readonly object[]) {
  const body = `${JSON.stringify({ pods })}\n`;
  return (socket: Socket) =>
    socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
}

const podOf = (namespace: string, name: string) => ({
  ...{ namespace, name, uid: name, phase: "Running", reason: "", message: "", ready: "1/1", restarts: 0 },
  ...{ ip: "10.194.120.10", startTime: "", status: {} },
  steps: ["volumes", "sandbox", "create", "start"].map((what) => ({ what, ms: 100 })),
});

const asks: readonly (readonly [args: readonly string[], names: readonly string[]])[] = [
  [[], ["web", "dns"]],
  [["-A"], ["web", "dns"]],
  [["--all-namespaces"], ["web", "dns"]],
  [["-n", "shop"], ["web"]],
  [["-n=shop"], ["web"]],
  [["-nshop"], ["web"]],
  [["--namespace=shop"], ["web"]],
  [
    ["--namespace=shop", "-A"],
    ["web", "dns"],
  ],
  [
    ["-An", "shop"],
    ["web", "dns"],
  ],
];
for (const [args, names] of asks)
  test(`berth pods ${args.join(" ")} shows the pods that kubectl would`.replace("  ", " "), async () => {
    await serve(respondWith(podOf("shop", "web"), podOf("kube-system", "dns")));
    const { stdout, stderr, exitCode } = await pods(() => {}, ...args);
    const rows = stdout.trimEnd().split("\n").slice(1);
    expect([rows.map((row) => row.split(/ +/)[1]), stderr, exitCode]).toEqual([[...names], "", 0]);
  });

for (const args of [[], ["--watch"]])
  test(`on a terminal of 80 columns no line of berth pods ${args.join(" ")} wraps`, async () => {
    await serve(respondWith(podOf("default", "edited-page-berth"), podOf("default", "web-berth")));
    const decoder = new TextDecoder();
    let shown = "";
    const child = Bun.spawn([process.execPath, program, "pods", "--root-dir", folder, ...args], {
      terminal: { cols: 80, rows: 24, data: (_, bytes) => (shown += decoder.decode(bytes, { stream: true })) },
    });
    await child.exited;
    const lines = shown.replaceAll("\u001b[H\u001b[2J", "").trimEnd().split("\r\n");
    // The command for the rest has the root directory that this one was given.
    expect([...lines.slice(0, 4), lines.slice(4, 6).join(" ")]).toEqual([
      "POD                READY  STATE              RESTARTS  IP             AGE",
      "edited-page-berth  1/1    Running            0         10.194.120.10  -",
      "web-berth          1/1    Running            0         10.194.120.10  -",
      "",
      `not shown in 80 columns: START (ms), NAMESPACE; see berth pods --root-dir ${folder} | cat`,
    ]);
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });

test("a reader that closes the pipe, as head does, ends the watch silently", async () => {
  let watcher: Socket | undefined;
  await serve((socket) => {
    // The watch may end between two polls, and a write after that fails.
    watcher = socket.on("error", () => undefined);
    socket.write(headers + chunk);
  });
  const argv = [program, "pods", "--root-dir", folder, "--watch"];
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "pipe"] });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    stderr += text;
  });
  await once(child.stdout, "data");
  const ended = once(child, "close");
  child.stdout.destroy();
  // Writes before the pipe is really closed fit into its buffer, so keep writing until the watch ends.
  await pollUntil("the watch to end", 4_000, async () => {
    watcher?.write(chunk);
    return child.exitCode !== null || child.signalCode !== null;
  });
  const [exitCode] = await ended;
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
});
