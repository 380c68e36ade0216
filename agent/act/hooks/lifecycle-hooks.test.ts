import { afterAll, beforeAll, expect, test } from "bun:test";
import { createServer } from "node:http";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { HTTPGetAction, LifecycleHandler, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { nothingObserved } from "../../decide/pod/observed.ts";
import { runPostStart, stopContainer } from "./lifecycle-hooks.ts";

const [uid, id] = ["u" as PodUid, "c" as ContainerId];
const seen: string[] = [];
const server = createServer(({ url, headers: { authorization = "" } }, answer) => {
  seen.push(`${url} ${authorization}`.trimEnd());
  answer.end("heard");
});
let port = 0;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as { readonly port: number }).port;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** A pod with one container on a network of both families, and what was asked of the runtime for it. */
function createScene(httpGet: Partial<HTTPGetAction>, other?: LifecycleHandler) {
  const clock = new FakeClock();
  const calls: string[] = [];
  const hook = other ?? { httpGet: { port, path: "/hook", ...httpGet } };
  const lifecycle = { postStart: hook, preStop: hook };
  const pod: Pod = {
    metadata: { uid, name: "web", namespace: "shop" },
    spec: { containers: [{ name: "a", image: "busybox:1", lifecycle }] },
  };
  const ips = ["2001:db8::5", "127.0.0.1"];
  const sandbox = { id: "s" as SandboxId, attempt: 0, createdAt: 0, ready: true, hostNetwork: false, ips, crashes: 0 };
  const observed = { ...nothingObserved(uid, "shop", "web"), sandboxes: [sandbox] };
  const settings = {
    runtime: {
      execSync: () => Promise.reject(new Error("nobody asked for a command")),
      stopContainer: async (stopped: ContainerId) => void calls.push(`stop ${stopped}`),
    },
    clock,
    root: new FakeDisk(clock.now).at("/root"),
    facts: () => ({ ...nodeFacts, hostIPs: ["192.0.2.1"] }),
  };
  const { signal } = new AbortController();
  const scene = { pod, observed };
  const stop = { kind: "stopContainer", name: "a", id, gracePeriodSeconds: 5, preStop: true, why: "" } as const;
  return {
    calls,
    start: () => runPostStart(settings, scene, { kind: "runHook", name: "a", id, attempt: 0 }, signal),
    stop: () => stopContainer(settings, scene, stop, signal),
    seen: () => seen.splice(0),
  };
}

test("a hook asks the pod at the address of the node's family, as its status tells it", async () => {
  const scene = createScene({});
  expect(await scene.start()).toEqual({});
  expect(scene.seen()).toEqual(["/hook"]);
});

test("a hook over HTTPS that is served in plain HTTP is heard, and tells so, also before a stop", async () => {
  const scene = createScene({ scheme: "HTTPS", httpHeaders: [{ name: "Authorization", value: "secret" }] });
  expect(await scene.start()).toEqual({ askedInPlainText: `127.0.0.1:${port}` });
  expect(await scene.stop()).toEqual({ askedInPlainText: `127.0.0.1:${port}` });
  expect([scene.seen(), scene.calls]).toEqual([["/hook", "/hook"], ["stop c"]]);
});

test("a hook that nobody hears fails in the kubelet's words, of which a log has those about the request alone", async () => {
  const closed = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => closed.once("listening", resolve));
  const { port: nobodys } = closed.address() as { readonly port: number };
  await new Promise((resolve) => closed.close(resolve));
  const why = `Get "http://127.0.0.1:${nobodys}/hook": dial tcp 127.0.0.1:${nobodys}: connect: connection refused`;
  const what = 'HTTP lifecycle hook (/hook) for Container "a" in Pod "web_shop(u)" failed';
  const failure = createScene({ port: nobodys }).start();
  await expect(failure).rejects.toMatchObject({ message: why, told: `${what} - error: ${why}` });
});

test("a hook that asks a TCP socket fails, as the API says of it", async () => {
  const why = "a hook cannot ask a TCP socket";
  const told = `Lifecycle hook for Container "a" in Pod "web_shop(u)" failed - error: ${why}`;
  await expect(createScene({}, { tcpSocket: { port } }).start()).rejects.toMatchObject({ message: why, told });
});
