import { expect, test } from "bun:test";
import { createServer } from "node:net";
import { findListeningSockets, parseListeningSockets } from "./listening-sockets.ts";

test("the tables of proc(5) list listening sockets among others", () => {
  const table = [
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
    "   0: 0100007F:2808 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0",
    "   1: 0100007F:280A 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1",
    "",
  ];
  expect(parseListeningSockets(table.join("\n"))).toEqual([{ port: 10248, inode: "4711" }]);
});

test.each(["127.0.0.1", "::1"])("the listener on a port of %s has its process", async (host) => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  expect(await findListeningSockets([port, 1])).toEqual([
    { port, pid: process.pid, program: expect.stringMatching(/./) },
  ]);
  await new Promise((resolve) => server.close(resolve));
  expect(await findListeningSockets([port])).toEqual([]);
});
