import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodeFacts } from "../test/fakes/node-facts.ts";
import { factsOf } from "./facts.ts";

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-facts-"));
  path = join(folder, "resolv.conf");
});
afterEach(() => rm(folder, { recursive: true }));

const hostResolvConf = (resolvConf: string | undefined) =>
  factsOf({ ...nodeFacts, resolvConf }, nodeFacts, () => [])().hostResolvConf;

test("the host's resolver is what its file says whenever somebody asks, and none where there is no file to ask", async () => {
  for (const address of ["192.0.2.1", "192.0.2.2"]) {
    await writeFile(path, `nameserver ${address}\n`);
    expect(hostResolvConf(path)).toEqual({ nameservers: [address], searches: [], options: [] });
  }
  expect(hostResolvConf(undefined)).toBeUndefined();
});

test("a resolver's file that cannot be read is a wrong sandbox configuration, and names the field", () => {
  const refused = { name: "TranslateError", reason: "ConfigPodSandboxError" };
  expect(() => hostResolvConf(path)).toThrow(
    expect.objectContaining({ ...refused, message: `resolvConf: ${path} does not exist` }),
  );
  expect(() => hostResolvConf(folder)).toThrow(
    expect.objectContaining({ ...refused, message: `resolvConf: ${folder} is a directory, not a regular file` }),
  );
});
