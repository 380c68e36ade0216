// Both forms of the delegate with agents that a test scripts byte by byte, and with input that no runtime gives. The network is never
// executed: its folder is empty.
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { askAgent } from "../../cni/delegate/ask-agent.ts";
import { type DelegateCall, decodeDelegateCall } from "../../cni/delegate/delegate-call.ts";
import { formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import { pollUntil, startStopwatch } from "../bed/poll-until.ts";
import { FakeClock } from "../fakes/clock.ts";
import { delegateForms, describeForms, emulatedForms } from "./delegate-forms.ts";

const TIMEOUT_MS = 2_000;
const forms = [...(await delegateForms()), ...(await emulatedForms())];

let folder: string;
let agent: Server | undefined;
/** The calls that agents have got. */
let calls: DelegateCall[];

/**
 * Starts an agent that answers each request with these bytes, one after the other, and closes the connection after so many
 * milliseconds; with Infinity never.
 */
async function startAgent(parts: readonly string[], { closesAfterMs = 0 } = {}) {
  agent = createServer((socket) => {
    let request = "";
    // The delegate may leave in the midst of an answer that it cannot use.
    socket.on("error", () => socket.destroy());
    socket.on("data", async (data) => {
      request += data.toString("latin1");
      const [head = "", body] = request.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
      if (body === undefined || body.length < length) return;
      calls.push(decodeDelegateCall(Buffer.from(body, "latin1").toString()));
      for (const part of parts) await new Promise<void>((resolve) => socket.write(part, () => resolve()));
      if (closesAfterMs !== Number.POSITIVE_INFINITY) setTimeout(() => socket.end(), closesAfterMs);
    });
  });
  const socket = join(folder, "cni.sock");
  await new Promise<void>((resolve) => agent?.listen(socket, resolve));
}

/** An agent that is stopped, with as many connections as its queue takes, and that answers each one when it goes on. */
async function startStoppedAgent() {
  const socket = join(folder, "cni.sock");
  const script = `
    const answer = (connection) => {
      connection.on("error", () => connection.destroy());
      connection.on("data", () => connection.end(${JSON.stringify(ok)}));
    };
    require("net").createServer(answer).listen(${JSON.stringify(socket)}, () => process.kill(process.pid, "SIGSTOP"));
  `;
  const child = Bun.spawn([process.execPath, "-e", script], { stdin: "ignore", stdout: "inherit", stderr: "inherit" });
  const isStopped = async () => / T /.test((await readFile(`/proc/${child.pid}/stat`, "utf8")).slice(0, 60));
  await pollUntil("the agent to stop", 10_000, isStopped);
  const queued: Socket[] = [];
  // Bun's name for the kernel's EAGAIN.
  for (let error = ""; error !== "ECONNREFUSED"; )
    error = await new Promise<string>((resolve) => {
      const connection = connect(socket, () => resolve(""));
      connection.on("error", ({ code = "" }: NodeJS.ErrnoException) => resolve(code));
      queued.push(connection);
    });
  return {
    goOn: () => child.kill("SIGCONT"),
    async end() {
      for (const connection of queued) connection.destroy();
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}

interface Input {
  readonly verb?: string;
  /** Undefined for a variable that is missing. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Fields of the configuration beside those that the list has. */
  readonly fields?: object;
  /** All of standard input. */
  readonly stdin?: string;
}

/** What `berth cni install` has written, as libcni passes it. */
function confOf(fields: object): string {
  const paths = { socket: join(folder, "cni.sock"), confDir: join(folder, "net.d"), cacheDir: join(folder, "cache") };
  const list = formatDelegateList({ ...paths, binDirs: [join(folder, "bin")], timeoutMs: TIMEOUT_MS });
  const [plugin] = (JSON.parse(list) as { plugins: [object] }).plugins;
  return JSON.stringify({ cniVersion: "1.0.0", name: "berth-delegate", ...plugin, ...fields });
}

const parameters = {
  CNI_CONTAINERID: "3f2a",
  CNI_NETNS: "/run/netns/blue",
  CNI_IFNAME: "eth0",
  CNI_ARGS: "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web",
};
const expectedCall: DelegateCall = {
  verb: "ADD",
  attachment: {
    containerId: "3f2a",
    netns: "/run/netns/blue",
    ifName: "eth0",
    args: new Map([
      ["K8S_POD_NAMESPACE", "shop"],
      ["K8S_POD_NAME", "web"],
    ]),
    capabilityArgs: {},
  },
  // What is left of TIMEOUT_MS when the program asks.
  timeLeftMs: expect.any(Number) as number,
};

const http = (status: string, body: string, length = Buffer.byteLength(body)) =>
  `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`;
const result = { cniVersion: "1.0.0", ips: [{ address: "10.1.0.2/24" }] };
const ok = http("200 OK", JSON.stringify(result));
const failure = { cniVersion: "1.0.0", code: 104, msg: 'berth: "8080" is taken }', details: "é" };

describeForms(forms, (form) => {
  beforeEach(async () => {
    calls = [];
    folder = await mkdtemp(join(tmpdir(), "berth-agents-"));
    for (const name of ["bin", "net.d"]) await mkdir(join(folder, name));
    await form.install(join(folder, "bin"));
  });
  afterEach(async () => {
    agent?.close();
    agent = undefined;
    await rm(folder, { recursive: true });
  });

  async function call({ verb = "ADD", env = {}, fields = {}, stdin = confOf(fields) }: Input = {}) {
    const [program = "", ...args] = form.argv(join(folder, "bin"));
    const all = { CNI_COMMAND: verb, ...parameters, ...env };
    const { stdout, stderr, exitCode } = await execa(program, args, { env: all, input: stdin, reject: false });
    expect(stderr).toBe("");
    return { exitCode, output: stdout === "" ? undefined : (JSON.parse(stdout) as Record<string, unknown>) };
  }

  const noNetwork = { exitCode: 1, output: { code: 7, msg: expect.stringContaining("has no network configuration") } };
  const lost = {
    exitCode: 1,
    output: { code: 11, msg: expect.stringMatching(/has ended during ADD \(.+\); DEL and/) },
  };
  const refused = (code: number, text: string) => ({
    exitCode: 1,
    output: { cniVersion: "1.0.0", code, msg: expect.stringContaining(text) },
  });

  test("ADD prints the result of the agent, DEL and CHECK nothing", async () => {
    await startAgent([ok]);
    expect(await call()).toEqual({ exitCode: 0, output: result });
    for (const verb of ["DEL", "CHECK"]) expect(await call({ verb })).toEqual({ exitCode: 0, output: undefined });
    expect(calls).toEqual([expectedCall, { ...expectedCall, verb: "DEL" }, { ...expectedCall, verb: "CHECK" }]);
    expect(calls.filter(({ timeLeftMs = 0 }) => timeLeftMs <= 0 || timeLeftMs > TIMEOUT_MS)).toEqual([]);
  });

  test("the error object of the agent is printed as it is", async () => {
    await startAgent([http("500 Internal Server Error", JSON.stringify(failure))]);
    for (const verb of ["ADD", "DEL", "CHECK"]) expect(await call({ verb })).toEqual({ exitCode: 1, output: failure });
  });

  test("an answer may come byte by byte, with another case of its header", async () => {
    await startAgent([...ok.replace("Content-Length", "content-LENGTH")]);
    expect(await call()).toEqual({ exitCode: 0, output: result });
  });

  test("the answer ends with its length, even if the connection stays open", async () => {
    await startAgent([ok], { closesAfterMs: Number.POSITIVE_INFINITY });
    expect(await call()).toEqual({ exitCode: 0, output: result });
  });

  test("a result of a megabyte is printed in whole", async () => {
    const large = { ...result, dns: { search: Array.from({ length: 50_000 }, (_, index) => `zone-${index}.example`) } };
    await startAgent([http("200 OK", JSON.stringify(large))]);
    expect(await call()).toEqual({ exitCode: 0, output: large });
  });

  const answers: readonly (readonly [string, readonly string[]])[] = [
    ["nothing", []],
    ["what is not HTTP", ["garbage\r\n\r\n"]],
    ["ten megabytes that are not HTTP", ["x".repeat(10_000_000)]],
    ["a head that ends early", ["HTTP/1.1 200 OK\r\nContent-Len"]],
    ["a body that ends early", [http("200 OK", JSON.stringify(result), 1_000)]],
    ["a length that is no number", [ok.replace(/Length: \d+/, "Length: many")]],
    ["what is not JSON", [http("200 OK", "hello")]],
    ["JSON that is no object", [http("200 OK", "[]")]],
    ["an object that ends early", [http("200 OK", '{"ips": [')]],
    ["a failure without an error object", [http("500 Internal Server Error", '{"code": "7"}')]],
    ["another status", [http("413 Payload Too Large", "")]],
  ];
  for (const [name, parts] of answers)
    test(`an agent that answers ${name} fails ADD, and the program executes DEL`, async () => {
      await startAgent(parts);
      expect(await call()).toMatchObject(lost);
      expect(await call({ verb: "DEL" })).toEqual({ exitCode: 0, output: undefined });
    });

  test("an agent that never answers costs a call its time", async () => {
    await startAgent([], { closesAfterMs: Number.POSITIVE_INFINITY });
    for (const verb of ["ADD", "DEL"]) {
      const [startedMs, countedMs] = [performance.now(), startStopwatch({ afterMs: TIMEOUT_MS })];
      const message = `the agent on ${folder}/cni.sock, which may be stopped, has not answered ${verb} within 2000 ms`;
      expect(await call({ verb })).toMatchObject(refused(11, message));
      expect(performance.now() - startedMs).toBeGreaterThanOrEqual(TIMEOUT_MS);
      expect(countedMs()).toBeLessThan(2 * TIMEOUT_MS);
    }
  }, 600_000);

  test("a stopped agent whose queue of connections is full costs a call its time, and answers when it goes on", async () => {
    const stopped = await startStoppedAgent();
    try {
      for (const verb of ["ADD", "DEL"]) {
        const startedMs = performance.now();
        const message = `the agent on ${folder}/cni.sock, which may be stopped, has not answered ${verb} within 2000 ms`;
        expect(await call({ verb })).toMatchObject(refused(11, message));
        expect(performance.now() - startedMs).toBeGreaterThanOrEqual(TIMEOUT_MS);
      }
      stopped.goOn();
      expect(await call()).toEqual({ exitCode: 0, output: result });
    } finally {
      await stopped.end();
    }
  }, 600_000);

  test("without an agent the program executes the call, also on the socket of one that was killed", async () => {
    expect(await call()).toMatchObject(noNetwork);
    expect(await call({ verb: "DEL" })).toEqual({ exitCode: 0, output: undefined });
    const listen = `require("net").createServer().listen(${JSON.stringify(join(folder, "cni.sock"))}, () => process.kill(process.pid, "SIGKILL"))`;
    await execa(process.execPath, ["-e", listen], { reject: false });
    expect(await call()).toMatchObject(noNetwork);
  });

  test("VERSION, STATUS and GC need no configuration", async () => {
    const version = { cniVersion: "1.0.0", supportedVersions: ["1.0.0"] };
    expect(await call({ verb: "VERSION", stdin: "" })).toEqual({ exitCode: 0, output: version });
    for (const verb of ["STATUS", "GC"])
      expect(await call({ verb, stdin: "" })).toEqual({ exitCode: 0, output: undefined });
  });

  const runtimeConfig = { portMappings: [{ hostPort: 80, hostIP: "}]" }], note: 'a "quoted" \\ brace }, é \u0001' };
  const sameCalls: readonly (readonly [string, () => Input, Partial<DelegateCall["attachment"]>])[] = [
    [
      "a runtimeConfig with quotes and braces",
      () => ({ fields: { runtimeConfig } }),
      { capabilityArgs: runtimeConfig },
    ],
    [
      "a configuration with white space, and escapes in it",
      () => {
        const text = JSON.stringify({ ...JSON.parse(confOf({ runtimeConfig })), note: "\\" }, undefined, "\t");
        return { stdin: `\n${text} \n`.replaceAll("/", "\\/").replace("socket", "\\u0073ocket") };
      },
      { capabilityArgs: runtimeConfig },
    ],
    ["more than one folder of plugins", () => ({ fields: { binDirs: ["/a]", '/b"', "/"] } }), {}],
    ["no CNI_ARGS", () => ({ env: { CNI_ARGS: undefined } }), { args: new Map() }],
    ["empty pairs", () => ({ env: { CNI_ARGS: ";A=;B=1;;" } }), { args: new Map([["A", ""], ["B", "1"]]) }], // biome-ignore format: one row
    ["letters beyond ASCII", () => ({ env: { CNI_ARGS: "A=é" } }), { args: new Map([["A", "é"]]) }],
    ["quotes", () => ({ env: { CNI_NETNS: '/run/"\\\n' } }), { netns: '/run/"\\\n' }],
    [
      "a field twice",
      () => ({ stdin: confOf({}).replace("{", '{"runtimeConfig": {"a": 1},') }),
      { capabilityArgs: { a: 1 } },
    ],
  ];
  for (const [name, input, expected] of sameCalls)
    test(`the agent gets the call as it is with ${name}`, async () => {
      await startAgent([ok]);
      expect(await call(input())).toEqual({ exitCode: 0, output: result });
      expect(calls).toEqual([{ ...expectedCall, attachment: { ...expectedCall.attachment, ...expected } }]);
    });

  const badInput: readonly (readonly [string, () => Input, number, string])[] = [
    ["no verb", () => ({ env: { CNI_COMMAND: undefined } }), 4, 'CNI_COMMAND: found "", must be one of ADD, DEL'],
    ["an unknown verb", () => ({ verb: "ADDED" }), 4, 'CNI_COMMAND: found "ADDED", must be one of ADD, DEL'],
    ["nothing on standard input", () => ({ stdin: "" }), 6, "the configuration on standard input is not JSON"],
    ["an object that ends early", () => ({ stdin: confOf({}).slice(0, -1) }), 6, "is not JSON"],
    ["JSON that is no object", () => ({ stdin: "[]" }), 6, "is no JSON object"],
    ["ten megabytes on standard input", () => ({ fields: { note: "x".repeat(10_000_000) } }), 6, "longer than 1048576"],
    ["ten megabytes of brackets", () => ({ stdin: "[".repeat(10_000_000) }), 6, "longer than 1048576"],
    ["another version", () => ({ fields: { cniVersion: "0.4.0" } }), 1, 'cniVersion: found "0.4.0", must be "1.0.0"'],
    ["a relative socket", () => ({ fields: { socket: "cni.sock" } }), 7, "socket: found"],
    ["no folder of networks", () => ({ fields: { confDir: undefined } }), 7, "confDir: found nothing"],
    ["a relative folder of networks", () => ({ fields: { confDir: "net.d" } }), 7, 'confDir: found "net.d"'],
    [
      "an empty folder of results",
      () => ({ fields: { cacheDir: "" } }),
      7,
      'cacheDir: found "", must be an absolute path',
    ],
    ["a folder of results that is no text", () => ({ fields: { cacheDir: ["/a"] } }), 7, 'cacheDir: found ["/a"]'],
    ["no folders of plugins", () => ({ fields: { binDirs: undefined } }), 7, "binDirs: found nothing"],
    ["an empty list of folders of plugins", () => ({ fields: { binDirs: [] } }), 7, "binDirs: found []"],
    ["one folder of plugins that is no list", () => ({ fields: { binDirs: "/bin" } }), 7, 'binDirs: found "/bin"'],
    [
      "a relative folder of plugins",
      () => ({ fields: { binDirs: ["/bin", "bin"] } }),
      7,
      'binDirs: found ["/bin","bin"]',
    ],
    ["a folder of plugins that is a list", () => ({ fields: { binDirs: [["/bin"]] } }), 7, 'binDirs: found [["/bin"]]'],
    ["a time that is no number", () => ({ fields: { timeoutMs: "2000" } }), 7, "timeoutMs: found"],
    ["a runtimeConfig that is no object", () => ({ fields: { runtimeConfig: [] } }), 6, "runtimeConfig: found []"],
    ["a word in CNI_ARGS that is no pair", () => ({ env: { CNI_ARGS: "A=1;B" } }), 4, 'CNI_ARGS: found "B"'],
    ["a pair with two signs", () => ({ env: { CNI_ARGS: "A=1=2" } }), 4, 'CNI_ARGS: found "A=1=2"'],
  ];
  for (const [name, input, code, text] of badInput)
    test(`${name} is refused, and no agent is asked`, async () => {
      await startAgent([ok]);
      expect(await call(input())).toMatchObject(refused(code, text));
      expect(calls).toEqual([]);
    });

  test("parameters that are missing are refused without an agent", async () => {
    expect(await call({ env: { CNI_CONTAINERID: undefined } })).toMatchObject(refused(3, "the container id is empty"));
    expect(await call({ env: { CNI_IFNAME: undefined } })).toMatchObject(refused(4, "interface name"));
    expect(await call({ env: { CNI_NETNS: undefined } })).toMatchObject(refused(4, "CNI_NETNS: found nothing"));
  });
});

test("a call that waits for a place in the queue of a stopped agent is answered when the agent goes on", async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-agents-"));
  const stopped = await startStoppedAgent();
  const clock = new FakeClock();
  try {
    const asked = askAgent(
      join(folder, "cni.sock"),
      { ...expectedCall, timeLeftMs: TIMEOUT_MS },
      new AbortController().signal,
      clock,
    );
    for (let time = 0; time < 3; time++) {
      await pollUntil("the call to wait", 10_000, () => clock.pendingTimers === 1);
      await clock.advance(200);
    }
    stopped.goOn();
    await pollUntil("an answer", 10_000, async () => {
      await clock.advance(200);
      return Bun.peek.status(asked) === "fulfilled";
    });
    expect(await asked).toEqual({ kind: "answered", output: result });
  } finally {
    await stopped.end();
    await rm(folder, { recursive: true });
  }
});

describeForms(forms.slice(1), (form) => {
  test("passes on its input, its environment and the time that is left", async () => {
    calls = [];
    folder = await mkdtemp(join(tmpdir(), "berth-agents-"));
    await mkdir(join(folder, "bin"));
    await form.install(join(folder, "bin"));
    const script = '#!/bin/sh\necho "$0 $# $1 $CNI_IFNAME"\nexec cat\n';
    await writeFile(join(folder, "bin/berth-cni.program"), script, { mode: 0o755 });
    const [program = "", ...args] = form.argv(join(folder, "bin"));
    const call = async (verb: string, input: string) => {
      const env = { ...parameters, CNI_COMMAND: verb };
      const { stdout } = await execa(program, args, { env, input, reject: false, stripFinalNewline: false });
      const [, count, , timeLeft = "", rest] = /^\S+ (\d)( --time-left-ms=(\d+))? +eth0\n([\s\S]*)$/.exec(stdout) ?? [];
      return { count, timeLeftMs: Number(timeLeft), rest };
    };
    expect(await call("VERSION", "any text\n")).toEqual({ count: "0", timeLeftMs: 0, rest: "any text\n" });
    const conf = confOf({ note: "é".repeat(100_000) });
    for (const input of [conf, `${conf} `]) {
      const { timeLeftMs, ...others } = await call("ADD", input);
      expect(others).toEqual({ count: "1", rest: input });
      expect(timeLeftMs).toBeWithin(1, TIMEOUT_MS + 1);
    }
    await startAgent([], { closesAfterMs: 700 });
    const { timeLeftMs, ...others } = await call("DEL", conf);
    expect(others).toEqual({ count: "1", rest: conf });
    expect(timeLeftMs).toBeWithin(1, TIMEOUT_MS - 699);
    agent?.close();
    // One byte more than the limit says that it is too long.
    const tooLong = await call("DEL", confOf({ note: "x".repeat(2_000_000) }));
    expect([tooLong.count, tooLong.rest?.length]).toEqual(["0", 1_048_577]);
    await rm(folder, { recursive: true });
  });

  test("without the program beside it says what is missing", async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-agents-"));
    await form.install(folder);
    const [program = "", ...args] = form.argv(folder);
    const call = async (verb: string) => {
      const { stdout, exitCode } = await execa(program, args, { env: { CNI_COMMAND: verb }, reject: false });
      return { exitCode, output: JSON.parse(stdout) };
    };
    const msg = "cannot execute berth-cni.program beside berth-cni; berth cni install links it";
    const failed = { exitCode: 1, output: { cniVersion: "1.0.0", code: 5, msg } };
    await rm(join(folder, "berth-cni.program"));
    expect(await call("VERSION")).toEqual(failed);
    // A file that is no program.
    await writeFile(join(folder, "berth-cni.program"), "");
    expect(await call("STATUS")).toEqual(failed);
    await rm(folder, { recursive: true });
  });
});
