import { expect, test } from "bun:test";
import { FakeClock } from "../test/fakes/clock.ts";
import { parseNetworkConf } from "./conf.ts";
import { CniError } from "./error.ts";
import type { InProcessPlugin, PluginCall } from "./plugin-call.ts";
import { createPluginCalls, type PluginCallRecord } from "./plugin-calls.ts";
import { createTimeLimit } from "./time-limit.ts";

const conf = parseNetworkConf('{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge"}]}', "a list");
const [plugin] = conf.plugins;
const target = { containerId: "3f2a", netns: "/run/netns/blue", ifName: "eth0", args: new Map<string, string>() };
const { signal } = new AbortController();

/** A plugin that answers its calls in turn, and a caller of it. */
function createFixture(
  answers: readonly (object | Error)[],
  inProcess: ReadonlyMap<string, InProcessPlugin> = new Map(),
  timeLeftMs?: number,
) {
  const clock = new FakeClock();
  const calls: PluginCall[] = [];
  const records: PluginCallRecord[] = [];
  const binaries: InProcessPlugin = {
    async call(call) {
      calls.push(call);
      clock.elapsedMs += 7;
      const answer = answers[calls.length - 1];
      if (answer instanceof Error) throw answer;
      return answer as Record<string, unknown>;
    },
  };
  const onCall = (record: PluginCallRecord) => void records.push(record);
  const timeLimit = createTimeLimit(timeLeftMs, clock, signal);
  const callPlugin = createPluginCalls({ binaries, inProcess, clock, timeLimit, onCall });
  return { clock, calls, records, callPlugin };
}

const later = () => new CniError(11, "the daemon starts");

test("a call reports its plugin and how long it took", async () => {
  const { callPlugin, records, calls } = createFixture([{ ips: [] }]);
  expect(await callPlugin("ADD", conf, plugin!, { target }, signal)).toEqual({ ips: [] });
  expect(calls).toEqual([{ verb: "ADD", ...target, conf: { cniVersion: "1.0.0", name: "pods", type: "bridge" } }]);
  const record = {
    verb: "ADD",
    network: "pods",
    plugin: "bridge",
    containerId: "3f2a",
    durationMs: 7,
    error: undefined,
  };
  expect(records).toEqual([record] as never);
});

test("a plugin of this process comes before a binary of its name, and its error gets the plugin's name", async () => {
  const own: InProcessPlugin = { call: () => Promise.reject(new CniError(7, "no subnet", { details: "ipam" })) };
  const { callPlugin, calls } = createFixture([], new Map([["bridge", own]]));
  await expect(callPlugin("ADD", conf, plugin!, { target }, signal)).rejects.toMatchObject({
    code: 7,
    message: "no subnet",
    details: "ipam",
    plugin: "bridge",
  });
  expect(calls).toEqual([]);
});

test("an error of the executor is code 999", async () => {
  const { callPlugin } = createFixture([new TypeError("x is undefined")]);
  await expect(callPlugin("ADD", conf, plugin!, { target }, signal)).rejects.toMatchObject({
    code: 999,
    plugin: "bridge",
  });
});

test("a plugin that asks to try again later is called again, ADD only after a DEL", async () => {
  const { callPlugin, calls, clock, records } = createFixture([later(), {}, later(), later(), { ips: [] }]);
  const adding = callPlugin("ADD", conf, plugin!, { target, prevResult: { dns: {} } }, signal);
  await clock.advance(199);
  expect(calls.map(({ verb }) => verb)).toEqual(["ADD", "DEL"]);
  await clock.advance(1000);
  expect(await adding).toEqual({ ips: [] });
  expect(calls.map(({ verb }) => verb)).toEqual(["ADD", "DEL", "ADD", "DEL", "ADD"]);
  expect(new Set(calls.map(({ conf: { prevResult } }) => JSON.stringify(prevResult)))).toEqual(new Set(['{"dns":{}}']));
  expect(records.map(({ error }) => error?.code)).toEqual([11, undefined, 11, 11, undefined]);
});

test("after four more tries its error is final", async () => {
  const { callPlugin, calls, clock } = createFixture(Array.from({ length: 5 }, later));
  const checking = callPlugin("CHECK", conf, plugin!, { target }, signal);
  const failure = checking.catch((error: unknown) => error);
  await clock.advance(10_000);
  expect(await failure).toMatchObject({ code: 11, message: "the daemon starts" });
  expect(calls.map(({ verb }) => verb)).toEqual(["CHECK", "CHECK", "CHECK", "CHECK", "CHECK"]);
});

test("a call that is cancelled is reported as well, so that a plugin that hangs is found", async () => {
  const abort = new AbortController();
  const hanging: InProcessPlugin = {
    async call(_call, given) {
      abort.abort(new Error("stopping"));
      given.throwIfAborted();
      return undefined;
    },
  };
  const { callPlugin, records } = createFixture([], new Map([["bridge", hanging]]));
  await expect(callPlugin("ADD", conf, plugin!, { target }, abort.signal)).rejects.toThrow("stopping");
  expect(records).toMatchObject([{ verb: "ADD", plugin: "bridge", error: { message: "was cancelled" } }]);
});

test("no try follows when the signal aborts", async () => {
  const { callPlugin, calls, clock } = createFixture([later(), {}, {}]);
  const abort = new AbortController();
  const adding = callPlugin("DEL", conf, plugin!, { target }, abort.signal);
  const failure = adding.catch((error: unknown) => error);
  await clock.advance(10);
  abort.abort(new Error("stopping"));
  expect(await failure).toEqual(new Error("stopping"));
  expect(calls).toHaveLength(1);
});

test("without time for another try the plugin's own error is final, and is not that of a call that was not made", async () => {
  // Tries after 0, 207 and 714 ms; 7/8 of the time is over before a fourth one.
  const { callPlugin, calls, clock } = createFixture(Array.from({ length: 5 }, later), new Map(), 1_500);
  const checking = callPlugin("CHECK", conf, plugin!, { target }, signal);
  const failure = checking.catch((error: unknown) => error);
  await clock.advance(10_000);
  expect(await failure).toMatchObject({ code: 11, message: "the daemon starts" });
  expect(calls).toHaveLength(3);
});
