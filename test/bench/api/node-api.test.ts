import { expect, test } from "bun:test";
import { connectOnceReady, type NodeApi, type NodeServer } from "./node-api.ts";

const server: NodeServer = { host: "192.0.2.1", port: 10250, cert: "", key: "", rejectUnauthorized: false };

/** Connections that fail in turn for these reasons, and then one that works. Counts those that are closed. */
function connectionsOf(...failures: readonly { readonly in: "connect" | "read"; readonly why: string }[]) {
  const rest = [...failures];
  const counts = { closed: 0 };
  const connect = async (): Promise<NodeApi> => {
    const failure = rest.shift();
    if (failure?.in === "connect") throw new Error(failure.why);
    const readPage = async () => {
      if (failure !== undefined) throw new Error(failure.why);
      return { ms: 1, bytes: 1 };
    };
    return { server, readPage, download: readPage, close: () => counts.closed++ };
  };
  return { connect, counts };
}

test("a Node without a port, and an agent that does not answer yet, are tried again, and each connection is closed", async () => {
  const { connect, counts } = connectionsOf({ in: "connect", why: "no port" }, { in: "read", why: "refused" });
  const api = await connectOnceReady("the API of a", 60_000, connect);
  expect(api.server).toBe(server);
  expect(counts.closed).toBe(1);
});

test("a connection that takes too long fails with the reason of the last attempt", async () => {
  const { connect } = connectionsOf({ in: "connect", why: "the Node a has no port" });
  await expect(connectOnceReady("the API of a", -1, connect)).rejects.toThrow(
    /^gave up after \d+ ms waiting for: the API of a; the last attempt: the Node a has no port$/,
  );
});
