import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import type { ContainerdVersion } from "../bed/containerd/containerd.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { forwardBySpdy, forwardByWebSocket, type OpenPortForward } from "./port-forward-client.ts";
import { type OpenSession, openBySpdy, openByWebSocket } from "./streaming-client.ts";
import { cutContract } from "./streaming-cuts.ts";
import { type StreamingFixture, startStreamingFixture } from "./streaming-fixture.ts";

const MB = 1_000_000;
/** How many sessions must leave no descriptor behind: `npm run test:extended` opens 200. */
const SESSIONS = Number(process.env["BERTH_SESSIONS"] ?? 50);
const AT_ONCE = 10;

/** The endpoints of streaming on a real containerd, with each protocol of clients. */
export function streamingContract(version: ContainerdVersion): void {
  if (process.getuid?.() !== 0) {
    test.skip(`streaming with containerd ${version}: a container runtime needs root`, () => {});
    return;
  }
  setDefaultTimeout(600_000);
  describe(`streaming with containerd ${version}`, () => {
    let fixture: StreamingFixture;
    beforeAll(async () => {
      fixture = await startStreamingFixture(version);
    });
    afterAll(() => fixture.end());

    describe("by SPDY", () => execContract(() => fixture, openBySpdy));
    describe("by WebSocket v5", () => execContract(() => fixture, openByWebSocket("v5.channel.k8s.io")));
    describe("port-forward by SPDY", () => portForwardContract(() => fixture, forwardBySpdy));
    describe("port-forward by WebSocket", () => portForwardContract(() => fixture, forwardByWebSocket));
    cutContract(() => fixture);
    describe("by WebSocket v4", () => outputContract(() => fixture, openByWebSocket("v4.channel.k8s.io")));
  });
}

const exec = (command: readonly string[], flags: string) =>
  `/exec/default/web/main?${command.map((word) => `command=${encodeURIComponent(word)}&`).join("")}${flags}`;

function outputContract(fixture: () => StreamingFixture, open: OpenSession): void {
  test("exec returns output, errors and the exit code", async () => {
    const path = exec(["sh", "-c", "echo out; echo err >&2; exit 7"], "output=1&error=1");
    const { stdout, stderr, status } = await (await open(fixture().port, path)).result;
    expect([stdout.toString(), stderr.toString()]).toEqual(["out\n", "err\n"]);
    expect(status).toMatchObject({
      status: "Failure",
      reason: "NonZeroExitCode",
      details: { causes: [{ reason: "ExitCode", message: "7" }] },
    });
  });

  test("exec of a command that succeeds, and of one that does not exist", async () => {
    const { status } = await (await open(fixture().port, exec(["true"], "output=1"))).result;
    expect(status).toMatchObject({ status: "Success" });
    const missing = await (await open(fixture().port, exec(["/missing"], "output=1"))).result;
    expect(missing.status).toMatchObject({ status: "Failure", message: expect.stringContaining("no such file") });
  });

  test("a terminal has the size that the client sets, and changes it", async () => {
    const command = ["sh", "-c", "trap 'stty size' WINCH; echo ready; while true; do sleep 0.05; done"];
    const session = await open(fixture().port, exec(command, "input=1&output=1&tty=1"));
    await session.sees("ready");
    session.resize(97, 31);
    await session.sees("31 97");
    session.resize(50, 20);
    await session.sees("20 50");
    await session.write(Buffer.from("\u0003"));
    const { status } = await session.result;
    expect(status).toMatchObject({ details: { causes: [{ message: "130" }] } });
  });

  test(`no descriptor is left behind by ${SESSIONS} sessions, ten at a time, nor by clients that vanish`, async () => {
    const { port, server } = fixture();
    await (await open(port, exec(["true"], "output=1"))).result;
    const before = await descriptorCount();
    for (let round = 0; round < SESSIONS / AT_ONCE; round++)
      await Promise.all(
        Array.from({ length: AT_ONCE }, async (_, index) => {
          const session = await open(port, exec(["sh", "-c", `echo ${index}; exec cat`], "input=1&output=1"));
          await session.sees(`${index}`);
          session.vanish();
        }),
      );
    await pollUntil("the end of all sessions", 10_000, () => server.openUpgrades() === 0);
    await pollUntil("no descriptor more", 10_000, async () => (await descriptorCount()) <= before + 2);
  });
}

function execContract(fixture: () => StreamingFixture, open: OpenSession): void {
  outputContract(fixture, open);

  test("100 MB of stdin arrive, and their checksum comes back after stdin has ended", async () => {
    const session = await open(fixture().port, exec(["md5sum"], "input=1&output=1"));
    const hash = createHash("md5");
    for (let index = 0; index < 100; index++) {
      const part = Buffer.alloc(MB, `${index} `);
      hash.update(part);
      await session.write(part);
    }
    session.endStdin();
    const { stdout, status } = await session.result;
    expect(stdout.toString()).toBe(`${hash.digest("hex")}  -\n`);
    expect(status).toMatchObject({ status: "Success" });
  });

  test("20 MB go through cat unchanged", async () => {
    const session = await open(fixture().port, exec(["cat"], "input=1&output=1"));
    const sent = Buffer.alloc(20 * MB, "0123456789abcdefghijklmnop\n");
    for (let start = 0; start < sent.length; start += MB) await session.write(sent.subarray(start, start + MB));
    session.endStdin();
    const { stdout } = await session.result;
    expect(stdout.equals(sent)).toBe(true);
  });

  test("attach reads and writes the main process", async () => {
    const session = await open(fixture().port, "/attach/default/web/shell?input=1&output=1&error=1");
    await session.write(Buffer.from("hello\n"));
    await session.sees("got hello");
    session.vanish();
  });
}

function portForwardContract(fixture: () => StreamingFixture, open: OpenPortForward): void {
  test("100 connections at once get back what they send, and the end of the pod after their own", async () => {
    const session = await open(fixture().port, "/portForward/default/host");
    const texts = Array.from({ length: 100 }, (_, index) => `${index} `.repeat(1_000 + index));
    const answers = await Promise.all(texts.map((text) => session.exchange(fixture().echoPort, Buffer.from(text))));
    expect(answers.map(({ received }) => received.toString())).toEqual(texts);
    expect(answers.map(({ error }) => error).join("")).toBe("");
    session.close();
  });

  test("a port that nothing listens on fails with an error, and others go on to work", async () => {
    const session = await open(fixture().port, "/portForward/default/host/uid-host");
    const { error } = await session.exchange(81, Buffer.from("lost"));
    expect(error).toContain("connection refused");
    const { received } = await session.exchange(fixture().echoPort, Buffer.from("again"));
    expect(received.toString()).toBe("again");
    session.close();
    await pollUntil("the end of the session", 10_000, () => fixture().server.openUpgrades() === 0);
  });
}

/** The open descriptors of this process, in which the server runs. */
async function descriptorCount(): Promise<number> {
  return (await readdir("/proc/self/fd")).length;
}
