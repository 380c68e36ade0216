import { beforeEach, expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createCertificateAuthority } from "../../test/upstream/pki.ts";
import { KubeError } from "../error.ts";
import { createCredentials, type IdentitySource } from "./credentials.ts";

const authority = createCertificateAuthority("kubernetes");
const first = authority.issue({ commonName: "system:node:a" });
const second = authority.issue({ commonName: "system:node:a" });

let clock: FakeClock;
let log: FakeLog;
let disk: FakeDisk;
let stats: number;
let reads: number;
beforeEach(() => {
  clock = new FakeClock();
  log = new FakeLog();
  disk = new FakeDisk(clock.now);
  stats = 0;
  reads = 0;
  disk.before = (verb) => {
    stats += verb === "stat" ? 1 : 0;
    reads += verb === "read" ? 1 : 0;
  };
});

const credentialsOf = (source: IdentitySource) => createCredentials({ source, files: disk.at("/"), clock, log });
const write = (path: string, content: string) => disk.at("/").write(path, content, 0o600);
const file = (path: string) => ({ kind: "file", path, namedBy: "the kubeconfig" }) as const;

test("a token file is read again after a change, and checked at most once a second", async () => {
  await write("/token", "one\n");
  const credentials = credentialsOf({ token: file("/token") });
  const before = await credentials.identity();
  expect(before).toEqual({ token: "one" });
  for (let count = 0; count < 100; count += 1) expect(await credentials.identity()).toBe(before);
  expect([stats, reads]).toEqual([1, 1]);

  await clock.advance(1000);
  expect(await credentials.identity()).toBe(before);
  expect([stats, reads]).toEqual([2, 1]);

  await write("/token", "two");
  await clock.advance(1000);
  expect(await credentials.identity()).toEqual({ token: "two" });
});

test("the request after a 401 checks the files at once", async () => {
  await write("/token", "one");
  const credentials = credentialsOf({ token: file("/token") });
  const before = await credentials.identity();
  credentials.markRejected();
  expect(await credentials.identity()).toBe(before);
  await write("/token", "two");
  credentials.markRejected();
  expect(await credentials.identity()).toEqual({ token: "two" });
});

test("setting the clock back does not delay the next check", async () => {
  await write("/token", "one");
  const credentials = credentialsOf({ token: file("/token") });
  await credentials.identity();
  await write("/token", "two");
  clock.stepWallClock(-3_600_000);
  expect(await credentials.identity()).toEqual({ token: "two" });
});

test("concurrent requests share one check", async () => {
  await write("/both.pem", first.cert + first.key);
  const credentials = credentialsOf({ certificate: { cert: file("/both.pem"), key: file("/both.pem") } });
  const all = await Promise.all(Array.from({ length: 50 }, () => credentials.identity()));
  expect(new Set(all).size).toBe(1);
  expect(all[0]).toEqual({ certificate: first });
  expect(stats).toBe(1);
});

test("a certificate that is replaced before its key waits for the key, which is logged once", async () => {
  await write("/c.crt", first.cert);
  await write("/c.key", first.key);
  const credentials = credentialsOf({ certificate: { cert: file("/c.crt"), key: file("/c.key") } });
  const before = await credentials.identity();

  await write("/c.crt", second.cert);
  for (let count = 0; count < 5; count += 1) {
    await clock.advance(1000);
    expect(await credentials.identity()).toBe(before);
  }
  expect(log.takeLines()).toEqual([
    "warn: the credentials for the API server cannot be used; keeping what was read before: the key in /c.key does not belong to the certificate in /c.crt: replace one of them",
  ]);

  await write("/c.key", second.key);
  await clock.advance(1000);
  expect(await credentials.identity()).toEqual({ certificate: second });
  expect(log.takeLines()).toEqual(["info: the credentials for the API server can be used again"]);
});

test("a deleted file leaves the cached value; touching a file changes nothing", async () => {
  await write("/token", "one");
  const credentials = credentialsOf({ token: file("/token") });
  const before = await credentials.identity();
  await write("/token", "one\n\n");
  await clock.advance(1000);
  expect(await credentials.identity()).toBe(before);
  await disk.at("/").remove("/token");
  await clock.advance(1000);
  expect(await credentials.identity()).toBe(before);
  expect(log.takeLines().length).toBe(1);
});

test("a file that cannot be used yet is checked at most once a second", async () => {
  const credentials = credentialsOf({ token: file("/token") });
  const ask = () => credentials.identity().catch((error: unknown) => error);
  for (let count = 0; count < 100; count += 1) expect(await ask()).toMatchObject({ code: "CREDENTIALS" });
  expect([stats, reads]).toEqual([1, 1]);
  await write("/token", "one");
  expect(await ask()).toMatchObject({ code: "CREDENTIALS" });
  await clock.advance(1000);
  expect(await ask()).toEqual({ token: "one" });
});

test("inline credentials are read once, without any file access", async () => {
  const credentials = credentialsOf({ token: { kind: "inline", text: "abc", where: "token (k:1)" } });
  const before = await credentials.identity();
  credentials.markRejected();
  await clock.advance(3_600_000);
  expect(await credentials.identity()).toBe(before);
  expect([stats, reads]).toEqual([0, 0]);
});

const inline = (text: string, where: string) => ({ kind: "inline", text, where }) as const;
const hidden = "planted-4711";
const rows: readonly [what: string, source: IdentitySource, says: string][] = [
  [
    "a token file that does not exist",
    { token: file("/none") },
    "/none does not exist: the kubeconfig refers to it; create it with read permission, or configure another file",
  ],
  ["an empty token", { token: inline(" \n", "/t") }, "the token in /t is empty"],
  [
    "a token of two lines",
    { token: inline(`${hidden}\n${hidden}`, "/t") },
    "/t does not contain a token: it has spaces",
  ],
  [
    "a file without a certificate",
    { certificate: { cert: inline(hidden, "/c"), key: inline(first.key, "/k") } },
    "/c contains no certificate in PEM format",
  ],
  [
    "a certificate that cannot be parsed",
    {
      certificate: {
        cert: inline("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "/c"),
        key: inline(first.key, "/k"),
      },
    },
    "/c contains a certificate that cannot be parsed",
  ],
  [
    "a file without a key",
    { certificate: { cert: inline(first.cert, "/c"), key: inline(hidden, "/k") } },
    "/k contains no unencrypted private key in PEM format",
  ],
  [
    "a key that cannot be parsed",
    {
      certificate: {
        cert: inline(first.cert, "/c"),
        key: inline("-----BEGIN PRIVATE KEY-----\nQUJDRA==\n-----END PRIVATE KEY-----", "/k"),
      },
    },
    "/k contains a private key that cannot be parsed",
  ],
  [
    "a key of another certificate",
    { certificate: { cert: inline(first.cert, "/c"), key: inline(second.key, "/k") } },
    "the key in /k does not belong to the certificate in /c",
  ],
];
for (const [what, source, says] of rows)
  test(`the error for ${what} does not contain the secret`, async () => {
    try {
      await credentialsOf(source).identity();
    } catch (error) {
      expect(error).toBeInstanceOf(KubeError);
      expect(error).toMatchObject({ code: "CREDENTIALS" });
      expect((error as Error).message).toStartWith(says);
      expect(Bun.inspect(error, { depth: 20 }).split("\n").slice(-3).join()).not.toContain(hidden);
      return;
    }
    throw new Error("it was accepted");
  });
