import { afterAll, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { createKnock } from "./tcp-connect.ts";

const servers: Server[] = [];
afterAll(() => {
  for (const server of servers) server.close();
});

/** A server at an address, with a promise of how the first connection to it ends. */
async function listen(host: string) {
  const ended = Promise.withResolvers<string>();
  const server = createServer((socket: Socket) => {
    socket.on("error", (error) => ended.resolve(error.message));
    socket.on("end", () => ended.resolve("hung up in order"));
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
const isHere = (host: string) =>
  Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === host));
for (const [listening, asked] of hosts)
  test.skipIf(!isHere(listening))(
    `whoever listens at ${listening} is reached by ${asked}, and sees a connection that ends in order`,
    async () => {
      const { port, ended } = await listen(listening);
      expect(createKnock()(asked, port)).toBe(true);
      expect(await ended).toBe("hung up in order");
    },
  );

test("a port that nobody listens at, a name, and an address of one link are left to whoever waits", async () => {
  const { port } = await listen("127.0.0.1");
  const server = servers.at(-1);
  await new Promise((resolve) => server?.close(resolve));
  const knock = createKnock();
  expect(knock("127.0.0.1", port)).toBe(false);
  const { port: open } = await listen("127.0.0.1");
  expect(knock("localhost", open)).toBe(false);
  expect(knock("fe80::1%lo", open)).toBe(false);
});

test("no descriptor is left open, whoever answers", async () => {
  const { port } = await listen("127.0.0.1");
  const knock = createKnock();
  knock("127.0.0.1", port);
  const before = readdirSync("/proc/self/fd").length;
  for (let times = 0; times < 50; times++) knock("127.0.0.1", times % 2 === 0 ? port : 1);
  // What the server has taken meanwhile, it takes in a turn of its own.
  expect(readdirSync("/proc/self/fd").length).toBeLessThanOrEqual(before);
});
