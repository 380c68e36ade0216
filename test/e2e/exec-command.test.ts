import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { EXEC_SOCKET } from "../../agent/config/local-socket.ts";
import { builtBinary } from "../bed/agent.ts";
import { podOf, script } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;

beforeAll(async () => {
  node = await startNode();
  await node.putManifest(podOf("web", { command: script("sleep 1000") }));
  await node.waitUntilRunning("web");
});

afterAll(async () => {
  await node.tearDown();
});

async function run(argv: readonly string[], stdin: Uint8Array | "ignore" = "ignore") {
  const child = Bun.spawn([...argv], { stdin, stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { stdout, stderr, exitCode };
}

const exec = (...args: readonly string[]) => [builtBinary, "exec", "--root-dir", node.paths.agentRoot, ...args];

test("berth exec shows output and errors, and ends with the exit code of the command", async () => {
  expect(await run(exec("web-berth", "--", "sh", "-c", "echo out; echo err >&2; exit 7"))).toEqual({
    stdout: "out\n",
    stderr: "err\n",
    exitCode: 7,
  });
  expect(await run(exec("web-berth", "-c", "main", "--", "true"))).toEqual({ stdout: "", stderr: "", exitCode: 0 });
});

test("berth exec -i passes 100 MB of stdin and its end", async () => {
  const sent = Buffer.alloc(100_000_000, "berth exec ");
  const { stdout, exitCode } = await run(exec("web-berth", "-i", "--", "md5sum"), sent);
  expect([stdout, exitCode]).toEqual([`${createHash("md5").update(sent).digest("hex")}  -\n`, 0]);
});

test("berth exec passes 100 MB of output to a slow reader", async () => {
  const { stdout, exitCode } = await run([
    "sh",
    "-c",
    `"$@" | { sleep 1; wc -c; }`,
    "sh",
    ...exec("web-berth", "--", "head", "-c", "100000000", "/dev/zero"),
  ]);
  expect([stdout.trim(), exitCode]).toEqual(["100000000", 0]);
});

test("berth exec -it gives the command a terminal of the same size", async () => {
  const command = `until [ "$(stty size 2>&1)" = "33 99" ]; do sleep 0.05; done; echo resized; exit 3`;
  const words = exec("web-berth", "-it", "--", "sh", "-c", command).map((word) => `'${word}'`);
  const { stdout, exitCode } = await run(["script", "-qec", `stty rows 33 cols 99; ${words.join(" ")}`, "/dev/null"]);
  // script(1) also types what it reads from its own standard input.
  expect([stdout, exitCode]).toEqual([expect.stringContaining("resized"), 3]);
});

test("berth exec says in one line what is wrong", async () => {
  expect(await run(exec("missing", "--", "true"))).toEqual({
    stdout: "",
    stderr: `berth exec: no pod "missing" in namespace "default"; ${builtBinary} pods --root-dir ${node.paths.agentRoot} lists them\n`,
    exitCode: 1,
  });
  expect(await run(exec("web-berth", "-c", "missing", "--", "true"))).toEqual({
    stdout: "",
    stderr: 'berth exec: container "missing" not found in pod "web-berth"; it has main\n',
    exitCode: 1,
  });
  expect(await run(exec("web-berth", "--", "/missing"))).toEqual({
    stdout: "",
    stderr: 'berth exec: cannot execute "/missing" in the container: no such file or directory\n',
    exitCode: 127,
  });
  expect((await run([builtBinary, "exec", "--root-dir", "/missing", "web", "--", "true"])).stderr).toBe(
    "berth exec: no agent answers on /missing/exec.sock: there is no such socket: is it running? --root-dir names its directory\n",
  );
});

test("only root may open the socket of berth exec", async () => {
  const { mode } = await stat(join(node.paths.agentRoot, EXEC_SOCKET));
  expect(mode & 0o777).toBe(0o600);
});
