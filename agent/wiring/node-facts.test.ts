import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "../../test/fakes/clock.ts";
import { nodeFacts } from "../../test/fakes/node-facts.ts";
import { createNodeFacts } from "./node-facts.ts";

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-facts-"));
  path = join(folder, "resolv.conf");
});
afterEach(() => rm(folder, { recursive: true }));

const clock = new FakeClock();
const readerOf = (resolvConf: string | undefined) =>
  createNodeFacts({ ...nodeFacts, resolvConf }, nodeFacts, () => [], clock);
const hostResolvConf = (resolvConf: string | undefined) => readerOf(resolvConf)().hostResolvConf;

test("the host's resolv.conf is read at most once a second, and is undefined without a configured file", async () => {
  const facts = readerOf(path);
  const nameservers = () => facts().hostResolvConf?.nameservers;
  await writeFile(path, "nameserver 192.0.2.1\n");
  expect(nameservers()).toEqual(["192.0.2.1"]);
  await writeFile(path, "nameserver 192.0.2.2\n");
  await clock.advance(999);
  expect(nameservers()).toEqual(["192.0.2.1"]);
  await clock.advance(1);
  expect(nameservers()).toEqual(["192.0.2.2"]);
  expect(hostResolvConf(undefined)).toBeUndefined();
});

test("an unreadable resolv.conf is a sandbox configuration error that names the field", () => {
  const refused = { name: "TranslateError", reason: "ConfigPodSandboxError" };
  expect(() => hostResolvConf(path)).toThrow(
    expect.objectContaining({ ...refused, message: `resolvConf: ${path} does not exist` }),
  );
  expect(() => hostResolvConf(folder)).toThrow(
    expect.objectContaining({ ...refused, message: `resolvConf: ${folder} is a directory, not a regular file` }),
  );
});
