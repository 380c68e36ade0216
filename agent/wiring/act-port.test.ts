import { expect, test } from "bun:test";
import type { CriCallOptions } from "../../cri/runtime.ts";
import type { PodUid, SandboxId } from "../../proto/ids.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { FakeRuntime } from "../../test/fakes/runtime.ts";
import type { Action } from "../decide/pod/action.ts";
import type { ObservedPod } from "../decide/pod/observed.ts";
import { createActPort } from "./act-port.ts";
import type { AgentOptions } from "./agent.ts";
import type { Traces } from "./traces.ts";

const uid = "u-1" as PodUid;
const stop: Action = { kind: "stopSandbox", id: "s" as SandboxId, why: "it has ended" };

/** Performs an action, and returns the options of the call to the runtime. */
async function optionsOfCall(
  traces?: Pick<Traces, "traceparent" | "actionSpans">,
  onReceived?: () => void,
): Promise<CriCallOptions | undefined> {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  let sent: CriCallOptions | undefined;
  runtime.stopPodSandbox = async (_id, options) => {
    sent = options;
    onReceived?.();
  };
  const disk = { root: {}, logs: {}, machine: {} };
  // No more than the removal of a sandbox needs.
  const options = { runtime, clock, log: new FakeLog(), disk, pulls: { parallel: 1, qps: 0, burst: 1 }, traces };
  const deps = { podCache: { beginMutation() {}, endMutation() {} }, images: {}, podEvents: {} };
  type Deps = Parameters<typeof createActPort>[1];
  const act = createActPort({ ...options, startSlots: 2 } as unknown as AgentOptions, deps as unknown as Deps);
  const signal = new AbortController().signal;
  await act(uid, undefined, {} as ObservedPod, stop, { signal, onStarted() {} });
  return sent;
}

test("the call of an action carries the span of the action", async () => {
  const asked: unknown[] = [];
  const traceparent: Traces["traceparent"] = (...input) => {
    asked.push(input);
    return "00-1-2-01";
  };
  const actionSpans = () => undefined;
  expect(await optionsOfCall({ traceparent, actionSpans })).toMatchObject({ traceparent: "00-1-2-01" });
  expect(asked).toEqual([[uid, stop]]);
});

test("without traces, and for what belongs to none, a call carries no span", async () => {
  expect(await optionsOfCall()).not.toHaveProperty("traceparent");
  const ofNoStart = { traceparent: () => undefined, actionSpans: () => undefined };
  expect(await optionsOfCall(ofNoStart)).not.toHaveProperty("traceparent");
});

test("a traced action reports its call before the runtime has it", async () => {
  const calls: string[] = [];
  const spans = { onRuntimeCall: () => void calls.push("call"), onFileOperation: () => () => undefined };
  await optionsOfCall({ traceparent: () => "00-1-2-01", actionSpans: () => spans }, () => calls.push("runtime"));
  expect(calls).toEqual(["call", "runtime"]);
});
