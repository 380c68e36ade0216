import { beforeEach, describe, expect, test } from "bun:test";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createExec, type Exec, ExecError } from "../../host/exec.ts";
import { formatTime } from "../../proto/kubernetes/values/time.ts";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { createCertificateAuthority } from "../../test/upstream/pki.ts";
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
const ours = createCertificateAuthority("kubernetes").issue({ commonName: "system:node:a" });

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
    await settlePromises();
    return { stdout: JSON.stringify(print()), stderr: String(number) };
  },
};
const execCredential = (status: unknown) => ({ kind: "ExecCredential", apiVersion, status });
const credentials = (changes: Partial<ExecPlugin> = {}) =>
  createExecCredentials({ plugin: { ...plugin, ...changes }, exec, environment: {}, clock });

test("credentials are cached until they expire, and concurrent requests share one run", async () => {
  print = () => execCredential({ token: `token-${runs}`, expirationTimestamp: formatTime(clock.now() + 60_000) });
  const results = credentials();
  const all = await Promise.all([results.identity(), results.identity(), results.identity()]);
  expect(all).toEqual([{ token: "token-1" }, { token: "token-1" }, { token: "token-1" }]);
  await clock.advance(59_999);
  expect(await results.identity()).toBe(all[0]);
  await clock.advance(1);
  expect(await results.identity()).toEqual({ token: "token-2" });
  expect(runs).toBe(2);
});

test("credentials without an expiration time are cached until the server rejects them", async () => {
  print = () => execCredential({ clientCertificateData: ours.cert, clientKeyData: ours.key });
  const results = credentials();
  expect(await results.identity()).toEqual({ certificate: ours });
  await clock.advance(3_600_000);
  await results.identity();
  expect(runs).toBe(1);
  results.markRejected();
  await results.identity();
  expect(runs).toBe(2);
});

test("a plugin whose credentials are rejected or expired again and again is not run for each request", async () => {
  print = () => execCredential({ token: "t", expirationTimestamp: "2020-01-01T00:00:00Z" });
  const results = credentials();
  for (let second = 0; second < 20; second += 1) {
    await results.identity();
    results.markRejected();
    await clock.advance(1000);
  }
  expect(runs).toBe(2);
});

test("a failing plugin is not run for each request, and is run again later", async () => {
  print = () => "nonsense";
  const results = credentials();
  for (let count = 0; count < 5; count += 1) expect((await failureOf(results.identity())).code).toBe("CREDENTIALS");
  expect(runs).toBe(1);
  print = () => execCredential({ token: "t" });
  await clock.advance(10_000);
  expect(await results.identity()).toEqual({ token: "t" });
});

describe("the error for an unusable answer does not quote it:", () => {
  const hidden = "planted-4711";
  const rows: readonly [what: string, answer: unknown, says: string][] = [
    ["another kind", { kind: "Pod", apiVersion, hidden }, `did not print an ExecCredential of ${apiVersion}`],
    [
      "another version",
      { ...execCredential({ token: hidden }), apiVersion: "client.authentication.k8s.io/v1beta1" },
      `did not print an ExecCredential of ${apiVersion}`,
    ],
    ["empty credentials", execCredential({}), "returned neither a token nor a certificate"],
    ["no status", { kind: "ExecCredential", apiVersion }, "returned neither a token nor a certificate"],
    ["a number", execCredential({ token: 4711 }), "returned a field that is not a string"],
    [
      "half a certificate",
      execCredential({ clientCertificateData: hidden }),
      "returned a certificate without a key, or a key without a certificate",
    ],
    [
      "an invalid expiration time",
      execCredential({ token: hidden, expirationTimestamp: "soon" }),
      "returned an expirationTimestamp that is not a time",
    ],
  ];
  for (const [what, answer, says] of rows)
    test(what, async () => {
      print = () => answer;
      const error = await failureOf(credentials().identity());
      expect(error.message).toBe(`the credential plugin login ${says}`);
      expect(error.code).toBe("CREDENTIALS");
    });

  test("a token of two lines", async () => {
    print = () => execCredential({ token: `${hidden}\n${hidden}` });
    const error = await failureOf(credentials().identity());
    expect(error.message).toBe("the output of login does not contain a token: it has spaces or non-ASCII characters");
  });

  test("an answer that is not JSON", async () => {
    const broken: Exec = { run: () => Promise.resolve({ stdout: hidden, stderr: "" }) };
    const results = createExecCredentials({ plugin, exec: broken, environment: {}, clock });
    const error = await failureOf(results.identity());
    expect(error.message).toBe("the credential plugin login printed something that is not JSON");
    expect(error.cause).toBeUndefined();
  });
});

test("the error for a failing plugin has its stderr, and for a missing plugin the install hint", async () => {
  const failing = (error: ExecError): Exec => ({ run: () => Promise.reject(error) });
  const argv = ["login", "--password", "planted-4711"];
  const failed = createExecCredentials({
    plugin,
    exec: failing(new ExecError(argv, 3, "no session: log in first\n", "x")),
    environment: {},
    clock,
  });
  const error = await failureOf(failed.identity());
  expect(error.message).toBe("the credential plugin login exited with code 3: no session: log in first");
  expect(error.cause).toBeUndefined();
  const missing = createExecCredentials({
    plugin: { ...plugin, installHint: "install it with apt" },
    exec: failing(new ExecError(argv, undefined, "", "x")),
    environment: {},
    clock,
  });
  expect((await failureOf(missing.identity())).message).toBe(
    "the credential plugin login could not be run, or was killed: install it with apt",
  );
});

test("a real program inherits our environment and its own, gets its arguments, and is found in PATH", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-plugin-"));
  try {
    const script = `#!/bin/sh\nprintf '{"kind":"ExecCredential","apiVersion":"%s","status":{"token":"%s-%s-%s"}}' "${apiVersion}" "$1" "$MINE" "$OURS"\n`;
    await writeFile(join(folder, "login"), script);
    await chmod(join(folder, "login"), 0o755);
    const results = createExecCredentials({
      plugin: { ...plugin, args: ["a"], env: { MINE: "b" } },
      exec: createExec(),
      environment: { PATH: `${folder}:/usr/bin:/bin`, OURS: "c", NONE: undefined },
      clock,
    });
    expect(await results.identity()).toEqual({ token: "a-b-c" });
    const none = createExecCredentials({
      plugin: { ...plugin, command: "no-such-program" },
      exec: createExec(),
      environment: { PATH: folder },
      clock,
    });
    expect((await failureOf(none.identity())).message).toBe(
      "the credential plugin no-such-program could not be run, or was killed",
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
