import { expect, test } from "bun:test";
import { aborted } from "../../host/async/abort.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { CniError } from "../error.ts";
import type { AgentAnswer } from "./ask-agent.ts";
import { type DelegateDeps, runDelegate } from "./run-delegate.ts";

const conf = {
  socket: "/s/cni.sock",
  confDir: "/c",
  binDirs: ["/b"],
  cacheDir: "/v",
  timeoutMs: 2_000,
};
const stdin = JSON.stringify({ cniVersion: "1.0.0", name: "berth-delegate", type: "berth-cni", ...conf });
const parameters = { CNI_CONTAINERID: "3f2a", CNI_NETNS: "/run/netns/blue", CNI_IFNAME: "eth0" };
const answered: AgentAnswer = { kind: "answered", output: { cniVersion: "1.0.0", ips: [] } };
const away: AgentAnswer = { kind: "away" };
const lost: AgentAnswer = { kind: "lost", reason: "connection reset" };

/** Runs a verb with an agent that answers so. Returns its exit, and the calls of agent and executor. */
async function run(verb: string, answer: AgentAnswer | Error = answered, changed: Partial<DelegateDeps> = {}) {
  const calls: string[] = [];
  const { stdout, exitCode } = await runDelegate({
    args: [],
    env: { CNI_COMMAND: verb, ...parameters },
    readStdin: async () => stdin,
    clock: new FakeClock(),
    async askAgent(socket, call) {
      calls.push(`agent ${socket} ${call.verb}`);
      if (answer instanceof Error) throw answer;
      return answer;
    },
    async execute({ confDir }, call) {
      calls.push(`here ${confDir} ${call.verb}`);
      return call.verb === "ADD" ? { cniVersion: "1.0.0", ips: [{ address: "10.0.0.2/24" }] } : undefined;
    },
    ...changed,
  });
  return { calls, exitCode, output: stdout === "" ? undefined : JSON.parse(stdout) };
}

test("the agent executes a call, and this process nothing", async () => {
  expect(await run("ADD")).toEqual({
    calls: ["agent /s/cni.sock ADD"],
    exitCode: 0,
    output: { cniVersion: "1.0.0", ips: [] },
  });
  expect(await run("DEL")).toEqual({ calls: ["agent /s/cni.sock DEL"], exitCode: 0, output: undefined });
});

test("without an agent this process executes the call", async () => {
  expect(await run("ADD", away)).toEqual({
    calls: ["agent /s/cni.sock ADD", "here /c ADD"],
    exitCode: 0,
    output: { cniVersion: "1.0.0", ips: [{ address: "10.0.0.2/24" }] },
  });
});

test("of an agent that ends during the call, DEL and CHECK are executed here, and ADD fails", async () => {
  for (const verb of ["DEL", "CHECK"])
    expect((await run(verb, lost)).calls).toEqual([`agent /s/cni.sock ${verb}`, `here /c ${verb}`]);
  expect(await run("ADD", lost)).toEqual({
    calls: ["agent /s/cni.sock ADD"],
    exitCode: 1,
    output: {
      cniVersion: "1.0.0",
      code: 11,
      msg: "the agent on /s/cni.sock has ended during ADD (connection reset); DEL and another ADD may follow",
    },
  });
});

test("the error of the agent is the error of the call, with the plugin's own code", async () => {
  const failure = new CniError(100, "no address left", { plugin: "bridge", details: "10.1.0.0/30" });
  expect(await run("ADD", failure)).toMatchObject({
    exitCode: 1,
    output: { cniVersion: "1.0.0", code: 100, msg: "bridge: no address left", details: "10.1.0.0/30" },
  });
});

/** Waits until the signal aborts, as a call of a stopped process does. */
const hang = async (signal: AbortSignal): Promise<never> => {
  await aborted(signal);
  throw signal.reason;
};

test("a call waits for a stopped agent no longer than its time, and executes nothing then", async () => {
  const clock = new FakeClock();
  const askAgent: DelegateDeps["askAgent"] = (_socket, _call, signal) => hang(signal);
  const ended = run("ADD", answered, { clock, askAgent });
  await clock.advance(1_999);
  expect(clock.pendingTimers).toBe(1);
  await clock.advance(1);
  expect(await ended).toEqual({
    calls: [],
    exitCode: 1,
    output: {
      cniVersion: "1.0.0",
      code: 11,
      msg: "the agent on /s/cni.sock, which may be stopped, has not answered ADD within 2000 ms",
    },
  });
});

test("the time limit is that of the whole call, also without an agent", async () => {
  const clock = new FakeClock();
  const execute: DelegateDeps["execute"] = (_conf, _call, signal) => hang(signal);
  const ended = run("DEL", away, { clock, execute });
  await clock.advance(2_000);
  expect(await ended).toMatchObject({
    exitCode: 1,
    output: {
      code: 11,
      msg: "the chain has not answered DEL within 2000 ms",
    },
  });
});

test("the error of a wait for a lock is the answer, also if the time is over when it says who holds the lock", async () => {
  const clock = new FakeClock();
  const msg = "pid 7 (bridge) has locked the network pods, longer than this call may wait";
  const execute: DelegateDeps["execute"] = async (_conf, _call, signal) => {
    // As a read of /proc that takes longer than the call.
    await hang(signal).catch(() => undefined);
    throw new CniError(11, msg);
  };
  const ended = run("DEL", away, { clock, execute });
  await clock.advance(2_000);
  expect(await ended).toMatchObject({ exitCode: 1, output: { code: 11, msg } });
});

test("a call that the static form hands over has only the time that is left", async () => {
  const clock = new FakeClock();
  const execute: DelegateDeps["execute"] = (_conf, _call, signal) => hang(signal);
  const ended = run("DEL", away, { clock, execute, args: ["--time-left-ms=500"] });
  await clock.advance(500);
  expect(await ended).toMatchObject({ exitCode: 1, output: { code: 11 } });
});

test("the agent learns how long the call may take, and this process what is left of that", async () => {
  const clock = new FakeClock();
  const timesLeftMs: unknown[] = [];
  const askAgent: DelegateDeps["askAgent"] = async (_socket, call) => {
    timesLeftMs.push(call.timeLeftMs);
    await clock.advance(300);
    return lost;
  };
  const execute: DelegateDeps["execute"] = async (_conf, call) => void timesLeftMs.push(call.timeLeftMs);
  for (const args of [[], ["--time-left-ms=500"]])
    expect(await run("DEL", lost, { clock, askAgent, execute, args })).toMatchObject({ exitCode: 0 });
  expect(timesLeftMs).toEqual([2_000, 1_700, 500, 200]);
});

test("other arguments are refused", async () => {
  for (const args of [["--help"], ["--time-left-ms=0"], ["--time-left-ms=5", "more"]])
    expect(await run("DEL", answered, { args })).toMatchObject({
      calls: [],
      exitCode: 1,
      output: { code: 4, msg: expect.stringContaining(`found the arguments ${JSON.stringify(args)}, must be none`) },
    });
});

test("VERSION, STATUS and GC need neither the agent nor a configuration", async () => {
  const readStdin = () => Promise.reject(new Error("standard input was read"));
  expect(await run("VERSION", answered, { readStdin })).toEqual({
    calls: [],
    exitCode: 0,
    output: { cniVersion: "1.0.0", supportedVersions: ["1.0.0"] },
  });
  for (const verb of ["STATUS", "GC"])
    expect(await run(verb, answered, { readStdin })).toEqual({ calls: [], exitCode: 0, output: undefined });
});

const rows: readonly (readonly [string, string, string, number, string])[] = [
  [
    "an unknown verb",
    "PING",
    stdin,
    4,
    'CNI_COMMAND: found "PING", must be one of ADD, DEL, CHECK, STATUS, GC, VERSION',
  ],
  ["what is not JSON", "ADD", "{", 6, "the configuration on standard input is not JSON: "],
  ["a configuration that is too long", "ADD", " ".repeat(1_048_577), 6, "is longer than 1048576 bytes"],
  ["what is no object", "ADD", "[]", 6, "the configuration on standard input is no JSON object"],
  ["another version", "ADD", '{"cniVersion":"0.4.0"}', 1, 'cniVersion: found "0.4.0", must be "1.0.0"'],
  [
    "a list without its fields",
    "ADD",
    '{"cniVersion":"1.0.0"}',
    7,
    "the configuration of berth-cni: binDirs: found nothing",
  ],
];
for (const [name, verb, text, code, msg] of rows)
  test(`${name} is refused`, async () => {
    const { calls, exitCode, output } = await run(verb, answered, { readStdin: async () => text });
    expect({ calls, exitCode, output }).toMatchObject({
      calls: [],
      exitCode: 1,
      output: { code, msg: expect.stringContaining(msg) },
    });
  });
