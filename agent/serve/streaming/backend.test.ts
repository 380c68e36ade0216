import { expect, test } from "bun:test";
import { type AddressInfo, createServer } from "node:net";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { hasKeepAlive } from "../../../test/fakes/tcp-keep-alive.ts";
import { requestBackend } from "./backend.ts";

test("the kernel asks after a streaming server that is silent", async () => {
  const server = createServer((socket) => socket.write("HTTP/1.1 101 Switching Protocols\r\n\r\n"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const request = { url: `http://127.0.0.1:${port}/exec/1`, method: "POST", rawHeaders: [] };
  const { signal } = new AbortController();
  const { status, socket } = await requestBackend(request, { clock: new FakeClock(), signal });
  expect(status).toBe(101);
  expect(await hasKeepAlive(socket.localPort ?? 0, port)).toBe(true);
  socket.destroy();
  server.close();
});
