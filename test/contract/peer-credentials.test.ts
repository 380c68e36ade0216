// The socket of the delegate refuses other users, even where its mode lets them connect.
import { afterEach, beforeEach, expect, test } from "bun:test";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serveNetwork } from "../../agent/serve/network/network-server.ts";
import { createClock } from "../../host/clock.ts";
import { FakeLog } from "../fakes/log.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot)
  console.warn("skipped: the socket of the delegate and other users, since only root may become another one");
const OTHER_UID = 65534;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-peer-"));
  await chmod(folder, 0o755);
});
afterEach(() => rm(folder, { recursive: true }));

/** What another process, which has this user before it connects, gets from the socket. */
async function connectAs(uid: number, path: string): Promise<string> {
  const script = `
    process.setuid(${uid});
    const body = JSON.stringify({ verb: "DEL", containerId: "3f2a", netns: "", ifName: "eth0", args: [], capabilityArgs: {} });
    const answer = fetch("http://berth/call", { unix: ${JSON.stringify(path)}, method: "POST", body });
    console.log(await answer.then((response) => response.status, () => "refused"));
  `;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  return (await child.stdout.text()).trim();
}

test.skipIf(!isRoot)("a process of another user is refused, and nothing is executed for it", async () => {
  const path = join(folder, "cni.sock");
  const log = new FakeLog();
  let executed = 0;
  const execute = async () => {
    executed += 1;
    return undefined;
  };
  const server = await serveNetwork({ path, execute, clock: createClock(), log });
  try {
    expect(await connectAs(OTHER_UID, path)).toBe("refused");
    expect(log.lines).toEqual([]);
    await chmod(path, 0o666);
    expect(await connectAs(OTHER_UID, path)).toBe("refused");
    expect(log.lines).toMatchObject([
      { message: "refused a connection of another user", fields: { socket: path, uid: OTHER_UID } },
    ]);
    expect(executed).toBe(0);
    expect(await connectAs(0, path)).toBe("200");
    expect(executed).toBe(1);
  } finally {
    await server.stop();
  }
});
