import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const program = join(import.meta.dirname, "main.ts");
const agentStatus = {
  node: { name: "a", version: "v1" },
  runtime: { state: "ready" },
  pods: { Running: 1 },
  refused: 0,
};

let folder: string;
let agent: Server | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-status-"));
});
afterEach(async () => {
  agent?.close();
  agent = undefined;
  await rm(folder, { recursive: true });
});

/**
 * A fake agent that sends this response or closes the connection; resolves when it listens, with the request lines it
 * receives.
 */
async function serve(response?: string) {
  const requests: string[] = [];
  agent = createServer((socket) =>
    socket.once("data", (data) => {
      requests.push(String(data).split("\r\n")[0] ?? "");
      if (response === undefined) socket.destroy();
      else socket.end(response);
    }),
  );
  await new Promise<void>((resolve) => agent?.listen(join(folder, "berth.sock"), resolve));
  return requests;
}

function http(status: string, body: string): string {
  return `HTTP/1.1 ${status}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`;
}

async function status(...args: readonly string[]) {
  const argv = [process.execPath, program, "status", "--root-dir", folder, ...args];
  const child = Bun.spawn(argv, { stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { stdout, stderr, exitCode };
}

test("status shows the agent's JSON as text, or unchanged", async () => {
  const requests = await serve(http("200 OK", JSON.stringify(agentStatus)));
  const shown = await status("-o", "json");
  expect(shown).toEqual({ stdout: `${JSON.stringify(agentStatus)}\n`, stderr: "", exitCode: 0 });
  expect((await status()).stdout).toContain("1: 1 Running\n");
  expect(requests).toEqual(["GET /status HTTP/1.1", "GET /status HTTP/1.1"]);
});

const failures: readonly (readonly [name: string, answer: string | undefined, why: string])[] = [
  [
    "of an earlier release",
    http("404 Not Found", "not found"),
    "the running agent is of an earlier release that does not support this command",
  ],
  ["with an internal error", http("500 No", ""), "the agent on SOCKET responded with HTTP 500"],
  [
    "that closes the connection before its response",
    undefined,
    "no agent answers on SOCKET: the connection was closed: it has just exited",
  ],
];
for (const [name, response, why] of failures)
  test(`status prints one line and exits with code 1 for an agent ${name}`, async () => {
    await serve(response);
    const stderr = `berth status: ${why.replace("SOCKET", `${folder}/berth.sock`)}\n`;
    expect(await status()).toEqual({ stdout: "", stderr, exitCode: 1 });
  });

test("wrong arguments yield one line and exit code 2", async () => {
  const { stderr, exitCode } = await status("--watch");
  expect([stderr.split("\n").length, exitCode]).toEqual([2, 2]);
  expect(stderr).toStartWith("berth status: ");
});

test("--help prints the usage", async () => {
  const { stdout, exitCode } = await status("--help");
  expect([stdout.split("\n")[0], exitCode]).toEqual(["berth status [-o json] [--root-dir DIR]", 0]);
});
