import { afterAll, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { createTryTcpConnect } from "./tcp-connect.ts";

const servers: Server[] = [];
afterAll(() => {
  for (const server of servers) server.close();
});

/** A server at an address, with a promise of how the first connection to it ends. */
async function listen(host: string) {
  const ended = Promise.withResolvers<string>();
  const server = createServer((socket: Socket) => {
    socket.on("error", (error) => ended.resolve(error.message));
    socket.on("end", () => ended.resolve("closed normally"));
    socket.resume();
  });
  servers.push(server);
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, host, resolve));
  return { port: (server.address() as { readonly port: number }).port, ended: ended.promise };
}

const hosts: readonly [listening: string, asked: string][] = [
  ["127.0.0.1", "127.0.0.1"],
  ["127.0.0.1", "::ffff:127.0.0.1"],
  ["::1", "::1"],
  ["::1", "0:0:0:0:0:0:0:1"],
];
// A machine may have no IPv6 at all, and shows it by an interface without its address.
const hasAddress = (host: string) =>
  Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === host));
for (const [listening, target] of hosts)
  test.skipIf(!hasAddress(listening))(
    `a server at ${listening} is reached by ${target}, and its connection is closed normally`,
    async () => {
      const { port, ended } = await listen(listening);
      expect(createTryTcpConnect()(target, port)).toBe(true);
      expect(await ended).toBe("closed normally");
    },
  );

test("false for a closed port, a host name, and an address with a zone", async () => {
  const tryConnect = createTryTcpConnect();
  expect(tryConnect("127.0.0.1", 1)).toBe(false);
  const { port: open } = await listen("127.0.0.1");
  expect(tryConnect("localhost", open)).toBe(false);
  expect(tryConnect("fe80::1%lo", open)).toBe(false);
});

test("no descriptor stays open, whether a server listens or not", async () => {
  const { port } = await listen("127.0.0.1");
  const tryConnect = createTryTcpConnect();
  tryConnect("127.0.0.1", port);
  const before = readdirSync("/proc/self/fd").length;
  for (let times = 0; times < 50; times++) tryConnect("127.0.0.1", times % 2 === 0 ? port : 1);
  // The server accepts pending connections in a later iteration of the event loop.
  expect(readdirSync("/proc/self/fd").length).toBeLessThanOrEqual(before);
});
