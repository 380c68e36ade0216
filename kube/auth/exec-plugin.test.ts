import { beforeEach, describe, expect, test } from "bun:test";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createExec, type Exec, ExecError } from "../../host/exec.ts";
import { formatTime } from "../../proto/kubernetes/time.ts";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { createAuthority } from "../../test/upstream/pki.ts";
import { KubeError } from "../error.ts";
import { createExecCredentials, type ExecPlugin } from "./exec-plugin.ts";

const apiVersion = "client.authentication.k8s.io/v1";
const plugin: ExecPlugin = {
  apiVersion,
  command: "login",
  args: [],
  env: {},
  installHint: undefined,
  cluster: undefined,
};
const ours = createAuthority("kubernetes").issue({ commonName: "system:node:a" });

let clock: FakeClock;
let runs: number;
/** What the plugin prints, or how it fails. */
let print: () => unknown;
beforeEach(() => {
  clock = new FakeClock();
  runs = 0;
});
const exec: Exec = {
  async run() {
    runs += 1;
    const number = runs;
    await rest();
    return { stdout: JSON.stringify(print()), stderr: String(number) };
  },
};
const given = (status: unknown) => ({ kind: "ExecCredential", apiVersion, status });
const credentials = (changes: Partial<ExecPlugin> = {}) =>
  createExecCredentials({ plugin: { ...plugin, ...changes }, exec, environment: {}, clock });

test("what it gives is kept until it expires, and many who ask at once are one run", async () => {
  print = () => given({ token: `token-${runs}`, expirationTimestamp: formatTime(clock.now() + 60_000) });
  const asked = credentials();
  const all = await Promise.all([asked.identity(), asked.identity(), asked.identity()]);
  expect(all).toEqual([{ token: "token-1" }, { token: "token-1" }, { token: "token-1" }]);
  await clock.advance(59_999);
  expect(await asked.identity()).toBe(all[0]);
  await clock.advance(1);
  expect(await asked.identity()).toEqual({ token: "token-2" });
  expect(runs).toBe(2);
});

test("without a time it is kept until the server refuses it", async () => {
  print = () => given({ clientCertificateData: ours.cert, clientKeyData: ours.key });
  const asked = credentials();
  expect(await asked.identity()).toEqual({ certificate: ours });
  await clock.advance(3_600_000);
  await asked.identity();
  expect(runs).toBe(1);
  asked.refused();
  await asked.identity();
  expect(runs).toBe(2);
});

test("one whose credentials are refused or expired again and again is not run for each request", async () => {
  print = () => given({ token: "t", expirationTimestamp: "2020-01-01T00:00:00Z" });
  const asked = credentials();
  for (let second = 0; second < 20; second += 1) {
    await asked.identity();
    asked.refused();
    await clock.advance(1000);
  }
  expect(runs).toBe(2);
});

test("one that fails is not run for each request either, and is run again later", async () => {
  print = () => "nonsense";
  const asked = credentials();
  for (let count = 0; count < 5; count += 1) expect((await failureOf(asked.identity())).code).toBe("CREDENTIALS");
  expect(runs).toBe(1);
  print = () => given({ token: "t" });
  await clock.advance(10_000);
  expect(await asked.identity()).toEqual({ token: "t" });
});

describe("an answer that cannot be used is told without its content:", () => {
  const hidden = "planted-4711";
  const rows: readonly [what: string, answer: unknown, says: string][] = [
    ["another kind", { kind: "Pod", apiVersion, hidden }, `printed no ExecCredential of ${apiVersion}`],
    [
      "another version",
      { ...given({ token: hidden }), apiVersion: "client.authentication.k8s.io/v1beta1" },
      `printed no ExecCredential of ${apiVersion}`,
    ],
    ["nothing given", given({}), "gave neither a token nor a certificate"],
    ["no status", { kind: "ExecCredential", apiVersion }, "gave neither a token nor a certificate"],
    ["a number", given({ token: 4711 }), "gave something that is no text"],
    [
      "half a certificate",
      given({ clientCertificateData: hidden }),
      "gave a certificate without a key, or the reverse",
    ],
    ["no time", given({ token: hidden, expirationTimestamp: "soon" }), "gave an expirationTimestamp that is no time"],
  ];
  for (const [what, answer, says] of rows)
    test(what, async () => {
      print = () => answer;
      const error = await failureOf(credentials().identity());
      expect(error.message).toBe(`the credential plugin login ${says}`);
      expect(error.code).toBe("CREDENTIALS");
    });

  test("a token in two lines", async () => {
    print = () => given({ token: `${hidden}\n${hidden}` });
    const error = await failureOf(credentials().identity());
    expect(error.message).toBe("what stands in what login printed is no token: it has blanks or other letters in it");
  });

  test("no JSON", async () => {
    const broken: Exec = { run: () => Promise.resolve({ stdout: hidden, stderr: "" }) };
    const asked = createExecCredentials({ plugin, exec: broken, environment: {}, clock });
    const error = await failureOf(asked.identity());
    expect(error.message).toBe("the credential plugin login printed something that is not JSON");
    expect(error.cause).toBeUndefined();
  });
});

test("one that fails is told with what it says of itself, and one that is missing with how to get it", async () => {
  const failing = (error: ExecError): Exec => ({ run: () => Promise.reject(error) });
  const argv = ["login", "--password", "planted-4711"];
  const failed = createExecCredentials({
    plugin,
    exec: failing(new ExecError(argv, 3, "no session: log in first\n", "x")),
    environment: {},
    clock,
  });
  const error = await failureOf(failed.identity());
  expect(error.message).toBe("the credential plugin login ended with code 3: no session: log in first");
  expect(error.cause).toBeUndefined();
  const missing = createExecCredentials({
    plugin: { ...plugin, installHint: "install it with apt" },
    exec: failing(new ExecError(argv, undefined, "", "x")),
    environment: {},
    clock,
  });
  expect((await failureOf(missing.identity())).message).toBe(
    "the credential plugin login could not be run to its end: install it with apt",
  );
});

test("a real program inherits our environment and its own, finds its arguments, and is found in PATH", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-plugin-"));
  try {
    const script = `#!/bin/sh\nprintf '{"kind":"ExecCredential","apiVersion":"%s","status":{"token":"%s-%s-%s"}}' "${apiVersion}" "$1" "$MINE" "$OURS"\n`;
    await writeFile(join(folder, "login"), script);
    await chmod(join(folder, "login"), 0o755);
    const asked = createExecCredentials({
      plugin: { ...plugin, args: ["a"], env: { MINE: "b" } },
      exec: createExec(),
      environment: { PATH: `${folder}:/usr/bin:/bin`, OURS: "c", NONE: undefined },
      clock,
    });
    expect(await asked.identity()).toEqual({ token: "a-b-c" });
    const none = createExecCredentials({
      plugin: { ...plugin, command: "no-such-program" },
      exec: createExec(),
      environment: { PATH: folder },
      clock,
    });
    expect((await failureOf(none.identity())).message).toBe(
      "the credential plugin no-such-program could not be run to its end",
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});

async function failureOf(work: Promise<unknown>): Promise<KubeError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof KubeError) return error;
    throw error;
  }
  throw new Error("it succeeded");
}
