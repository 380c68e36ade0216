import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { askAgent } from "../../../cni/delegate/ask-agent.ts";
import { type DelegateCall, encodeDelegateCall, MAX_REQUEST_BYTES } from "../../../cni/delegate/delegate-call.ts";
import type { DelegateDeps } from "../../../cni/delegate/run-delegate.ts";
import { CniError } from "../../../cni/error.ts";
import type { PluginCallRecord } from "../../../cni/plugin-calls.ts";
import { aborted } from "../../../host/async/abort.ts";
import { createClock } from "../../../host/clock.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { type NetworkServer, type NetworkServerOptions, serveNetwork } from "./network-server.ts";

let folder: string;
let path: string;
let server: NetworkServer | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-cni-"));
  path = join(folder, "cni.sock");
});
afterEach(async () => {
  await server?.stop();
  server = undefined;
  await rm(folder, { recursive: true });
});

const call: DelegateCall = {
  verb: "ADD",
  attachment: {
    containerId: "3f2a",
    netns: "/run/netns/blue",
    ifName: "eth0",
    args: new Map([
      ["K8S_POD_NAMESPACE", "shop"],
      ["K8S_POD_NAME", "web"],
    ]),
    capabilityArgs: { mac: "0a:58:0a:01:00:05" },
  },
};
const { signal } = new AbortController();
const ask = (...args: Parameters<DelegateDeps["askAgent"]>) => askAgent(...args, createClock());

async function serve(
  execute: NetworkServerOptions["execute"],
  onPluginCallFinished?: NetworkServerOptions["onPluginCallFinished"],
) {
  const log = new FakeLog();
  server = await serveNetwork({
    path,
    execute,
    ...(onPluginCallFinished && { onPluginCallFinished }),
    clock: new FakeClock(),
    log,
  });
  return log;
}

const recordOf = (plugin: string, durationMs: number, error?: CniError): PluginCallRecord => ({
  ...{ verb: "ADD", network: "pods", containerId: "3f2a" },
  ...{ plugin, durationMs, error },
});

test("a call is executed as it was sent, and its result is the answer", async () => {
  const got: DelegateCall[] = [];
  await serve(async (one) => {
    got.push(one);
    return one.verb === "ADD" ? { cniVersion: "1.0.0", ips: [] } : undefined;
  });
  expect(await ask(path, call, signal)).toEqual({
    kind: "answered",
    output: { cniVersion: "1.0.0", ips: [] },
  });
  expect(await ask(path, { ...call, verb: "DEL" }, signal)).toEqual({ kind: "answered", output: {} });
  expect(got).toEqual([call, { ...call, verb: "DEL" }]);
});

test("each call of a plugin for a pod is passed on with its uid", async () => {
  const received: unknown[] = [];
  const bridge = recordOf("bridge", 3);
  await serve(
    async (_, onCall) => {
      onCall(bridge);
      return {};
    },
    (...one) => void received.push(one),
  );
  const args = new Map([...call.attachment.args, ["K8S_POD_UID", "u-1"]] as const);
  await ask(path, call, signal);
  await ask(path, { ...call, attachment: { ...call.attachment, args } }, signal);
  expect(received).toEqual([["u-1", bridge]]);
});

test("the longest call that a delegate sends is executed, and a longer one is refused", async () => {
  const got: DelegateCall[] = [];
  await serve(async (one) => {
    got.push(one);
    return {};
  });
  const longer = (bytes: number): DelegateCall => {
    const attachment = { ...call.attachment, capabilityArgs: { note: "x".repeat(bytes) } };
    return { ...call, attachment };
  };
  const head = encodeDelegateCall(longer(0)).length;
  expect(await ask(path, longer(MAX_REQUEST_BYTES - head), signal)).toEqual({ kind: "answered", output: {} });
  await expect(ask(path, longer(MAX_REQUEST_BYTES - head + 1), signal)).rejects.toMatchObject({
    code: 6,
    message: "the request is longer than 2097152 bytes",
  });
  expect(got.length).toBe(1);
});

test("one debug line per call says how long each plugin took", async () => {
  const log = await serve(async (_call, onCall) => {
    onCall(recordOf("bridge", 21.26));
    onCall(recordOf("portmap", 9));
    return {};
  });
  await ask(path, call, signal);
  expect(log.lines).toEqual([
    {
      level: "debug",
      message: "network ADD",
      fields: {
        ...{ namespace: "shop", pod: "web", sandbox: "3f2a", interface: "eth0", durationMs: 0 },
        plugins: "ADD bridge 21.3 ms, ADD portmap 9 ms",
      },
    },
  ]);
});

test("a failure is the plugin's own error, and in the log", async () => {
  const failure = new CniError(100, "no address left", { plugin: "bridge", details: "10.1.0.0/30" });
  const log = await serve(async () => {
    throw failure;
  });
  await expect(ask(path, call, signal)).rejects.toMatchObject({
    ...{ name: "CniError", code: 100, message: "bridge: no address left", details: "10.1.0.0/30" },
  });
  expect(log.lines[0]?.fields).toMatchObject({ err: failure });
});

test("a fault of this program is an error object, too", async () => {
  await serve(async () => {
    throw new TypeError("x is not a function");
  });
  await expect(ask(path, call, signal)).rejects.toMatchObject({ code: 999, message: "x is not a function" });
});

test("what is no call is refused, and nothing is executed", async () => {
  await serve(async () => {
    throw new Error("executed");
  });
  const send = async (target: string, method: string, body?: string) => {
    const response = await fetch(`http://berth${target}`, { unix: path, method, ...(body !== undefined && { body }) });
    return [response.status, (await response.json()) as object] as const;
  };
  expect(await send("/call", "POST", "{")).toEqual([500, expect.objectContaining({ code: 6 })]);
  expect(await send("/call", "GET")).toEqual([404, expect.objectContaining({ code: 6 })]);
  expect(await send("/", "POST", "{}")).toEqual([404, expect.objectContaining({ code: 6 })]);
});

test("only root may open the socket, and the socket of a killed agent is replaced", async () => {
  await writeFile(path, "the socket of an agent that was killed");
  const umask = process.umask();
  await serve(async () => ({}));
  expect([(await stat(path)).mode & 0o777, process.umask()]).toEqual([0o600, umask]);
});

test("a socket that cannot be created is a FilesError", async () => {
  await mkdir(path);
  await expect(serve(async () => ({}))).rejects.toMatchObject({ name: "FilesError", code: "EISDIR" });
});

test("no socket, and that of a killed agent, mean that the agent is away", async () => {
  expect(await ask(path, call, signal)).toEqual({ kind: "away" });
  const script = `Bun.serve({ unix: ${JSON.stringify(path)}, fetch: () => new Response() }); process.kill(process.pid, "SIGKILL")`;
  await Bun.spawn([process.execPath, "-e", script]).exited;
  expect((await stat(path)).isSocket()).toBe(true);
  expect(await ask(path, call, signal)).toEqual({ kind: "away" });
});

test("a stop cancels the calls under way, and their delegates see that the agent has ended", async () => {
  const started = Promise.withResolvers<AbortSignal>();
  await serve(async (_call, _onCall, cancelled) => {
    started.resolve(cancelled);
    await aborted(cancelled);
    throw cancelled.reason;
  });
  const asked = ask(path, call, signal);
  const cancelled = await started.promise;
  await server?.stop();
  expect([cancelled.aborted, (await asked).kind]).toEqual([true, "lost"]);
});

test("a delegate that was killed cancels its call", async () => {
  const started = Promise.withResolvers<AbortSignal>();
  await serve(async (_call, _onCall, cancelled) => {
    started.resolve(cancelled);
    await aborted(cancelled);
    throw cancelled.reason;
  });
  const killed = new AbortController();
  const asked = ask(path, call, killed.signal);
  const cancelled = await started.promise;
  killed.abort();
  await expect(asked).rejects.toBe(killed.signal.reason);
  await aborted(cancelled);
});
