import { afterAll, beforeAll, expect, test } from "bun:test";
import { createServer } from "node:http";
import { FilesError } from "../../../host/fs/files.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { HTTPGetAction, LifecycleHandler, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import { HookError, runPostStart, stopContainer } from "./lifecycle-hooks.ts";
import { createPodStops } from "./pod-stops.ts";

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

/** A pod with one container on a dual-stack network, and the runtime calls made for it. */
function createFixture(httpGet: Partial<HTTPGetAction>, other?: LifecycleHandler) {
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
  const observed = { ...emptyObservedPod(uid, "shop", "web"), sandboxes: [sandbox] };
  const disk = new FakeDisk(clock.now);
  const settings = {
    runtime: {
      execSync: () => Promise.reject(new Error("unexpected ExecSync")),
      stopContainer: async (stopped: ContainerId, graceSeconds: number) =>
        void calls.push(`stop ${stopped} within ${graceSeconds} s`),
    },
    clock,
    root: disk.at("/root"),
    facts: () => ({ ...nodeFacts, hostIPs: ["192.0.2.1"] }),
    stops: createPodStops(clock),
  };
  const { signal } = new AbortController();
  const input = { pod, observed };
  const stop = { kind: "stopContainer", name: "a", id, gracePeriodSeconds: 5, preStop: true, why: "" } as const;
  const stopAgain = { ...stop, usedGraceSeconds: 3 };
  return {
    clock,
    calls,
    start: () => runPostStart(settings, input, { kind: "runPostStart", name: "a", id, attempt: 0 }, signal),
    stop: () => stopContainer(settings, input, stop, signal),
    /** The stop by an agent that starts three seconds after the stop was due. */
    stopAgain: () => stopContainer(settings, input, stopAgain, signal),
    disk,
    seen: () => seen.splice(0),
  };
}

/** The log message and the status message of a hook that fails. */
async function failureOf(hook: Promise<unknown>): Promise<readonly string[]> {
  const error = await hook.catch((reason: unknown) => reason);
  if (!(error instanceof HookError)) throw new Error("the hook did not fail", { cause: error });
  return [error.message, error.statusMessage];
}

test("a hook uses the pod IP of the node's primary family, the first in the pod's status", async () => {
  const fixture = createFixture({});
  expect(await fixture.start()).toEqual({});
  expect(fixture.seen()).toEqual(["/hook"]);
});

test("an HTTPS hook whose server speaks plain HTTP succeeds and reports the fallback, also before a stop", async () => {
  const fixture = createFixture({ scheme: "HTTPS", httpHeaders: [{ name: "Authorization", value: "secret" }] });
  expect(await fixture.start()).toEqual({ plainHttpHost: `127.0.0.1:${port}` });
  expect(await fixture.stop()).toEqual({ plainHttpHost: `127.0.0.1:${port}` });
  expect([fixture.seen(), fixture.calls]).toEqual([["/hook", "/hook"], ["stop c within 5 s"]]);
});

const mark = "/root/pods/u/containers/a/pre-stop-00000000";

for (const [what, hook, result] of [
  ["has succeeded", { sleep: { seconds: 2 } }, {}],
  ["has failed", { tcpSocket: { port: 1 } }, { preStopFailure: "tcpSocket hooks are not supported" }],
] as const)
  test(`a preStop hook that ${what} is marked on disk before the stop`, async () => {
    const { clock, disk, calls, stop } = createFixture({}, hook);
    const marked: string[] = [];
    disk.after = (_verb, path) => void marked.push(`${path} ${calls.length}`);
    const stopped = stop();
    await clock.advance(1_900);
    if (what === "has succeeded") expect(marked).toEqual([]);
    await clock.advance(100);
    expect(await stopped).toEqual(result);
    expect(marked.at(-1)).toBe(`${mark} 0`);
    expect(calls).toHaveLength(1);
  });

test("a full disk does not prevent the stop behind a preStop hook", async () => {
  const { disk, calls, stop } = createFixture({});
  disk.before = () => {
    throw new FilesError("ENOSPC", mark, "the disk is full");
  };
  expect(await stop()).toEqual({});
  expect(calls).toEqual(["stop c within 5 s"]);
});

test("a sleep hook that an earlier agent has started lasts for the rest of its time", async () => {
  const { clock, calls, stopAgain } = createFixture({}, { sleep: { seconds: 5 } });
  const stopped = stopAgain();
  await clock.advance(1_999);
  expect(calls).toEqual([]);
  await clock.advance(1);
  await stopped;
  expect(calls).toEqual(["stop c within 3 s"]);
});

test("a wall clock that is set during the preStop hook does not change the container's grace", async () => {
  const { clock, calls, stop } = createFixture({}, { sleep: { seconds: 2 } });
  const stopped = stop();
  await clock.advance(1_000);
  clock.stepWallClock(60_000);
  await clock.advance(1_000);
  await stopped;
  expect(calls).toEqual(["stop c within 3 s"]);
});

test("a hook without a server fails with the kubelet's message, and the log gets only the request's error", async () => {
  const why = 'Get "http://127.0.0.1:1/hook": dial tcp 127.0.0.1:1: connect: connection refused';
  const what = 'HTTP lifecycle hook (/hook) for Container "a" in Pod "web_shop(u)" failed';
  const failure = createFixture({ port: 1 }).start();
  expect(await failureOf(failure)).toEqual([why, `${what} - error: ${why}`]);
});

test("a tcpSocket hook fails, as the API documents", async () => {
  const why = "tcpSocket hooks are not supported";
  const reported = `Lifecycle hook for Container "a" in Pod "web_shop(u)" failed - error: ${why}`;
  expect(await failureOf(createFixture({}, { tcpSocket: { port } }).start())).toEqual([why, reported]);
});
