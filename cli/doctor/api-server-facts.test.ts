import { afterEach, expect, test } from "bun:test";
import { createServer, type Server } from "node:net";
import { createClock } from "../../host/clock.ts";
import { createTlsServer, type ReceivedRequest, reply, type TlsServer } from "../../test/fakes/tls-server.ts";
import { createCertificateAuthority } from "../../test/upstream/pki.ts";
import { readApiServer } from "./api-server-facts.ts";
import type { ApiServerEndpoint } from "./kubeconfig-facts.ts";

const authority = createCertificateAuthority("berth.test");
const pair = authority.issue({ commonName: "kube-apiserver", hosts: ["127.0.0.1"] });

let server: TlsServer | Server | undefined;
afterEach(() => {
  server?.close();
  server = undefined;
});

async function serve(respond: (request: ReceivedRequest) => void): Promise<TlsServer> {
  const started = await createTlsServer(pair, respond);
  server = started;
  return started;
}

const read = (port: number, changes: Partial<ApiServerEndpoint> = {}, requestTimeoutMs = 5_000) =>
  readApiServer(
    {
      server: new URL(`https://127.0.0.1:${port}`),
      certificateAuthority: authority.cert,
      tlsServerName: undefined,
      insecureSkipTlsVerify: false,
      ...changes,
    },
    { clock: createClock(), requestTimeoutMs },
  );

test("the API server is asked for its health without credentials, and its Date header shows its clock", async () => {
  const aheadMs = 60_000;
  const { port, received } = await serve((request) =>
    reply(request, 200, "ok", { date: new Date(Date.now() - aheadMs).toUTCString() }),
  );
  const answer = await read(port);
  expect(answer).toMatchObject({ server: `127.0.0.1:${port}`, isReachable: true, status: 200 });
  const clockAheadMs = answer.isReachable ? (answer.clockAheadMs ?? 0) : 0;
  expect(Math.abs(clockAheadMs - aheadMs)).toBeLessThan(3_000);
  expect(received.map(({ path, headers }) => [path, headers.authorization])).toEqual([["/healthz", undefined]]);
});

test("a path of the server's address precedes that of the request", async () => {
  const { port, received } = await serve((request) => reply(request, 403, "forbidden"));
  expect(await read(port, { server: new URL(`https://127.0.0.1:${port}/cluster/`) })).toMatchObject({ status: 403 });
  expect(received.map(({ path }) => path)).toEqual(["/cluster/healthz"]);
});

test("a certificate of another authority is not trusted", async () => {
  const { port, received } = await serve((request) => reply(request, 200, "ok"));
  const other = createCertificateAuthority("berth.test").cert;
  expect(await read(port, { certificateAuthority: other })).toMatchObject({
    isReachable: false,
    message: expect.stringMatching(/certificate/),
  });
  expect(received).toEqual([]);
});

test("insecure-skip-tls-verify trusts every certificate", async () => {
  const { port } = await serve((request) => reply(request, 200, "ok"));
  const changes = { certificateAuthority: undefined, insecureSkipTlsVerify: true };
  expect(await read(port, changes)).toMatchObject({ isReachable: true });
});

test("a port on which nothing listens is not reachable", async () => {
  const { port, close } = await serve(() => {});
  close();
  expect(await read(port)).toMatchObject({ isReachable: false, message: expect.stringContaining("ECONNREFUSED") });
});

test("a server that takes the connection and never answers is not reachable after the timeout", async () => {
  const silent = createServer();
  server = silent;
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as { readonly port: number };
  expect(await read(port, {}, 50)).toMatchObject({ isReachable: false, message: "no answer within 0.05 s" });
});
