import { expect, test } from "bun:test";
import { type AddressInfo, connect, createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { listenOn } from "./listen.ts";

const hasIPv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));

/** Whether a server that listens on `address` is reached at `target`. */
async function isReached(address: string, target: string): Promise<boolean> {
  const server = createServer((socket) => socket.end());
  const port = await listenOn(server, { port: 0, address }, () => undefined);
  try {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const socket = connect(port, target, () => resolve(true)).on("error", () => resolve(false));
    return await promise.finally(() => socket.destroy());
  } finally {
    server.close();
  }
}

const rows: readonly (readonly [address: string, target: string, reached: boolean])[] = [
  ["0.0.0.0", "127.0.0.1", true],
  ["0.0.0.0", "::1", hasIPv6],
  ["::", "127.0.0.1", true],
  ["127.0.0.1", "127.0.0.1", true],
  ["127.0.0.1", "::1", false],
];
for (const [address, target, reached] of rows)
  test(`a server on ${address} is ${reached ? "" : "not "}reached at ${target}`, async () => {
    expect(await isReached(address, target)).toBe(reached);
  });

test("on a node without IPv6, 0.0.0.0 is listened on as it is", async () => {
  const server = createServer();
  const hosts: unknown[] = [];
  const listen = server.listen.bind(server);
  Object.assign(server, {
    listen({ host }: { readonly host: string }) {
      hosts.push(host);
      if (host !== "::") listen({ port: 0, host: "127.0.0.1" });
      else server.emit("error", Object.assign(new Error("no IPv6"), { code: "EAFNOSUPPORT" }));
    },
  });
  const port = await listenOn(server, { port: 0, address: "0.0.0.0" }, () => undefined);
  expect(hosts).toEqual(["::", "0.0.0.0"]);
  expect(port).toBe((server.address() as AddressInfo).port);
  server.close();
});

test("a port that is in use is an error", async () => {
  const server = createServer();
  const port = await listenOn(server, { port: 0, address: "0.0.0.0" }, () => undefined);
  const second = listenOn(createServer(), { port, address: "0.0.0.0" }, () => undefined);
  expect(await second.catch(({ code }) => code)).toBe("EADDRINUSE");
  server.close();
});
