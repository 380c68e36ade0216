import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const program = join(import.meta.dirname, "main.ts");
const told = { node: { name: "a", version: "v1" }, runtime: { state: "ready" }, pods: { Running: 1 }, refused: 0 };

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

/** An agent that answers so, or ends before it has; resolves when it listens. `asked` are the first lines of what it was asked. */
async function serve(answer?: string) {
  const asked: string[] = [];
  agent = createServer((socket) =>
    socket.once("data", (data) => {
      asked.push(String(data).split("\r\n")[0] ?? "");
      if (answer === undefined) socket.destroy();
      else socket.end(answer);
    }),
  );
  await new Promise<void>((resolve) => agent?.listen(join(folder, "berth.sock"), resolve));
  return asked;
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

test("what the agent tells is shown as text, or as it is", async () => {
  const asked = await serve(http("200 OK", JSON.stringify(told)));
  const shown = await status("-o", "json");
  expect(shown).toEqual({ stdout: `${JSON.stringify(told)}\n`, stderr: "", exitCode: 0 });
  expect((await status()).stdout).toContain("1: 1 Running\n");
  expect(asked).toEqual(["GET /status HTTP/1.1", "GET /status HTTP/1.1"]);
});

const failures: readonly (readonly [name: string, answer: string | undefined, why: string])[] = [
  [
    "of an earlier release",
    http("404 Not Found", "not found"),
    "the agent that runs is of an earlier release, which cannot say",
  ],
  ["in trouble", http("500 No", ""), "no agent answers on SOCKET: it answered 500"],
  ["that ends before it has answered", undefined, "no agent answers on SOCKET: it has ended just now"],
];
for (const [name, answer, why] of failures)
  test(`an agent ${name}: one line, and exit code 1`, async () => {
    await serve(answer);
    const stderr = `berth status: ${why.replace("SOCKET", `${folder}/berth.sock`)}\n`;
    expect(await status()).toEqual({ stdout: "", stderr, exitCode: 1 });
  });

test("wrong arguments: one line, and exit code 2", async () => {
  const { stderr, exitCode } = await status("--watch");
  expect([stderr.split("\n").length, exitCode]).toEqual([2, 2]);
  expect(stderr).toStartWith("berth status: ");
});

test("--help is its usage", async () => {
  const { stdout, exitCode } = await status("--help");
  expect([stdout.split("\n")[0], exitCode]).toEqual(["berth status [-o json] [--root-dir DIR]", 0]);
});
