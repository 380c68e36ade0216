import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pollUntil } from "../poll-until.ts";
import { findDeadSockets } from "./shim-sockets.ts";

let folder: string;
const ends: (() => unknown)[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-sockets-"));
});
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
  await rm(folder, { recursive: true });
});

/** Listens in a process of its own, in another network namespace for root. */
async function listen(name: string, kill = false): Promise<string> {
  const path = join(folder, name);
  const script = `Bun.listen({ unix: ${JSON.stringify(path)}, socket: { data() {} } }); console.log("up")`;
  const inNamespace = process.getuid?.() === 0 ? ["unshare", "--net"] : [];
  const child = Bun.spawn([...inNamespace, process.execPath, "--eval", script], { stdout: "pipe" });
  ends.push(() => child.kill());
  await child.stdout.getReader().read();
  if (kill) {
    child.kill("SIGKILL");
    await child.exited;
  }
  return path;
}

test("a socket is dead if no process of any network namespace listens on it, and it was created since the given time", async () => {
  await listen("alive");
  const [dead, anothers] = [await listen("dead", true), await listen("another's", true)];
  const since = Date.now() - 60_000;
  await utimes(anothers, new Date(since - 1000), new Date(since - 1000));
  expect(await findDeadSockets(Date.now() + 1000, folder)).toEqual([]);
  await pollUntil("the file to be old enough", 5_000, async () => (await findDeadSockets(since, folder)).length > 0);
  expect(await findDeadSockets(since, folder)).toEqual([dead]);
});

test("a folder that is absent has no sockets", async () => {
  expect(await findDeadSockets(0, join(folder, "none"))).toEqual([]);
});
