import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EXEC_SOCKET } from "../agent/config/local-socket.ts";
import { pollUntil } from "../test/bed/poll-until.ts";

setDefaultTimeout(20_000);

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const SWITCHED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";

/** An agent that upgrades each session, and then sends these bytes. Returns its root directory. */
async function startAgent(bytes: Buffer): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "berth-exec-"));
  closers.push(() => rm(root, { recursive: true }));
  const sockets: Socket[] = [];
  const server: Server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => void socket.write(Buffer.concat([Buffer.from(SWITCHED), bytes])));
  });
  await new Promise<void>((resolve) => server.listen(join(root, EXEC_SOCKET), resolve));
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return root;
}

const exec = (root: string, ...args: readonly string[]) => [
  ...[process.execPath, "cli/main.ts", "exec", "--root-dir", root, "web"],
  ...args,
];

/** SYN_REPLY without headers. */
function acceptFrame(streamId: number): Buffer {
  return Buffer.from([0x80, 3, 0, 2, 0, 0, 0, 4, 0, 0, 0, streamId]);
}

test("what is not SPDY ends the session with an error", async () => {
  const root = await startAgent(Buffer.from([0x80, 9, 0, 1, 0, 0, 0, 0]));
  const child = Bun.spawn(exec(root, "--", "true"), { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [stderr, exitCode] = await Promise.all([child.stderr.text(), child.exited]);
  expect(stderr).toMatch(/^berth exec: the container runtime has sent what is not SPDY: .+\n$/);
  expect(exitCode).toBe(1);
});

/** In a terminal: `berth exec -it` in the background, so that the shell can send it a signal, and then the settings. */
const IN_TERMINAL = `stty sane; stty -a | grep -o '.icanon'
"$@" </dev/tty & pid=$!
until stty -a | grep -q -- '-icanon'; do sleep 0.05; done
echo raw; kill -s TERM $pid; wait $pid; echo "exit code $?"; stty -a | grep -o '.icanon'`;

test("SIGTERM ends the session, and the terminal is as before", async () => {
  // The streams error, stdin, stdout and resize.
  const root = await startAgent(Buffer.concat([1, 3, 5, 7].map(acceptFrame)));
  const words = ["sh", "-c", IN_TERMINAL, "sh", ...exec(root, "-it", "--", "sh")];
  let output = "";
  const child = Bun.spawn(words, {
    terminal: {
      data(_terminal, bytes) {
        output += Buffer.from(bytes).toString();
      },
    },
  });
  closers.push(() => child.kill());
  await pollUntil("the end", 15_000, () => output.includes("exit code") && /icanon\s*$/.test(output));
  expect(output.replaceAll(/\s+/g, " ").trim()).toBe("icanon raw exit code 143 icanon");
});
