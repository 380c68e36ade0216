import { afterEach, beforeEach, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../../../../host/clock.ts";
import { createFiles } from "../../../../host/fs/files.ts";
import { pollUntil } from "../../../../test/bed/poll-until.ts";
import { FakeClock } from "../../../../test/fakes/clock.ts";
import { FakeLog } from "../../../../test/fakes/log.ts";
import { createCertificateAuthority } from "../../../../test/upstream/pki.ts";
import { createTlsFiles, type TlsContents } from "./tls-files.ts";

const DAY_MS = 24 * 3_600_000;
const authority = createCertificateAuthority("serving");
const [first, second] = [authority.issue({ commonName: "node" }), authority.issue({ commonName: "node" })];

let folder: string;
let log: FakeLog;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-tls-"));
  log = new FakeLog();
});
afterEach(() => rm(folder, { recursive: true }));

const path = (name: string) => join(folder, name);
async function replace(name: string, text: string): Promise<void> {
  await writeFile(path(`.${name}`), text);
  await rename(path(`.${name}`), path(name));
}
const common = () => ({ files: createFiles("/"), certDir: join(folder, "pki"), nodeName: "node-a", log });

test("a self-signed certificate is kept with its key, which only root may read, until it has 30 days left", async () => {
  const clock = new FakeClock();
  const files = createTlsFiles({ ...common(), serving: undefined, clientCAFile: undefined, clock });
  const made = await files.read();
  expect(new X509Certificate(made.cert).subjectAltName).toBe("DNS:node-a");
  const modeOf = async (name: string) => ((await stat(path(name))).mode & 0o777).toString(8);
  expect([await modeOf("pki/kubelet.crt"), await modeOf("pki/kubelet.key")]).toEqual(["644", "600"]);
  expect(await files.read()).toEqual(made);
  await clock.advance(336 * DAY_MS);
  expect((await files.read()).cert).not.toBe(made.cert);
});

test("a self-signed certificate is replaced while the agent runs, before it expires", async () => {
  const clock = new FakeClock();
  const files = createTlsFiles({ ...common(), serving: undefined, clientCAFile: undefined, clock });
  const stop = new AbortController();
  const seen: TlsContents[] = [];
  const made = await files.read();
  const followed = files.follow(made, (contents) => seen.push(contents), stop.signal);
  await clock.advance(334 * DAY_MS);
  expect(seen).toEqual([]);
  await clock.advance(2 * DAY_MS);
  await pollUntil("another certificate", 5_000, async () => {
    await clock.advance(1_000);
    return seen.length === 1;
  });
  expect(new X509Certificate(seen[0]?.cert ?? "").validTo).not.toBe(new X509Certificate(made.cert).validTo);
  stop.abort();
  await followed;
});

test("a broken file of a self-signed certificate is replaced", async () => {
  const files = createTlsFiles({ ...common(), serving: undefined, clientCAFile: undefined, clock: createClock() });
  await files.read();
  await writeFile(path("pki/kubelet.key"), "torn");
  const again = await files.read();
  expect(await createFiles("/").read(path("pki/kubelet.key"), 10_000)).toBe(again.key);
});

test("a key of another certificate, and a missing file, are errors that name the file", async () => {
  const serving = { cert: path("tls.crt"), key: path("tls.key") };
  const files = createTlsFiles({ ...common(), serving, clientCAFile: undefined, clock: createClock() });
  // Both are read at once.
  await expect(files.read()).rejects.toThrow(/\/tls\.(crt|key) does not exist/);
  await replace("tls.crt", first.cert);
  await replace("tls.key", second.key);
  await expect(files.read()).rejects.toThrow(`${serving.key} is not the private key of ${serving.cert}`);
});

test("files that change are used again when they fit together, and a bad version is logged once", async () => {
  await replace("tls.crt", first.cert);
  await replace("tls.key", first.key);
  await replace("ca.crt", authority.cert);
  const serving = { cert: path("tls.crt"), key: path("tls.key") };
  const files = createTlsFiles({ ...common(), serving, clientCAFile: path("ca.crt"), clock: createClock() });
  const stop = new AbortController();
  const seen: TlsContents[] = [];
  const followed = files.follow(await files.read(), (contents) => seen.push(contents), stop.signal);
  await replace("tls.crt", second.cert);
  await pollUntil("a warning", 5_000, async () => log.lines.length > 0);
  expect(log.takeLines()).toEqual([
    `warn: the certificates of the node's API cannot be used; keeping what was read before: ${serving.key} is not the private key of ${serving.cert}`,
  ]);
  expect(seen).toEqual([]);
  await replace("tls.key", second.key);
  await pollUntil("the new pair", 5_000, async () => seen.length === 1);
  expect(seen).toEqual([{ ...second, ca: [authority.cert] }]);
  const other = createCertificateAuthority("other");
  await replace("ca.crt", `the old one:\n${authority.cert}\nand the new one:\n${other.cert}`);
  await pollUntil("the new CA", 5_000, async () => seen.length === 2);
  expect(seen[1]).toEqual({ ...second, ca: [authority.cert, other.cert] });
  stop.abort();
  await followed;
});

test.each([
  ["an empty client CA", "", "contains no certificate"],
  ["a client CA that is a key", first.key, "contains something else than certificates"],
])("%s is an error", async (_name, content, message) => {
  await replace("tls.crt", first.cert);
  await replace("tls.key", first.key);
  await replace("ca.crt", content);
  const serving = { cert: path("tls.crt"), key: path("tls.key") };
  const files = createTlsFiles({ ...common(), serving, clientCAFile: path("ca.crt"), clock: createClock() });
  await expect(files.read()).rejects.toThrow(`${path("ca.crt")} ${message}`);
});
