import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CriError } from "../../cri/error.ts";
import { createFiles } from "../../host/fs/files.ts";
import { StatusResponse } from "../../proto/cri/gen/api.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { withNetworkCause } from "./runtime-network.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-network-"));
  for (const name of ["net.d", "bin"]) await mkdir(join(folder, name));
});
afterEach(() => rm(folder, { recursive: true }));

const words = "Network plugin returns error: cni plugin not initialized";
let verboseCalls: number;

/** The message of NetworkReady, and how many verbose calls it costs. */
async function read(isReady: boolean, verboseStatus?: () => Promise<StatusResponse>, said = words) {
  verboseCalls = 0;
  const cni = { confDir: join(folder, "net.d"), binDir: join(folder, "bin") };
  const verbose = async () => StatusResponse.fromPartial({ info: { config: JSON.stringify({ cni }) } });
  const status = withNetworkCause(
    async () =>
      StatusResponse.fromPartial({
        status: { conditions: [{ type: "NetworkReady", status: isReady, message: isReady ? "" : said }] },
      }),
    {
      runtime: {
        verboseStatus: () => {
          verboseCalls += 1;
          return (verboseStatus ?? verbose)();
        },
      },
      files: createFiles("/"),
      log: new FakeLog(),
    },
  );
  const { conditions = [] } = (await status()).status ?? {};
  return [conditions[0]?.message, verboseCalls];
}

const writeList = (text: string) => writeFile(join(folder, "net.d/10-pods.conflist"), text);

test("a network that is not ready says which file or program is missing, after the runtime's words", async () => {
  expect(await read(false)).toEqual([`${words}: ${folder}/net.d has no network configuration`, 1]);
  expect((await read(false, undefined, ""))[0]).toBe(`${folder}/net.d has no network configuration`);
  await writeList("{");
  expect((await read(false))[0]).toStartWith(`${words}: ${folder}/net.d/10-pods.conflist is not JSON`);
  await writeList(JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "bridge" }] }));
  const missing = `${folder}/net.d/10-pods.conflist needs bridge, and it is not in ${folder}/bin`;
  expect(await read(false)).toEqual([`${words}: ${missing}`, 1]);
  await writeFile(join(folder, "bin/bridge"), "", { mode: 0o755 });
  expect(await read(false)).toEqual([words, 1]);
});

test("a plugin's answer to STATUS in the runtime's message stays as it is", async () => {
  await writeList(JSON.stringify({ cniVersion: "1.1.0", name: "pods", plugins: [{ type: "bridge" }] }));
  await writeFile(join(folder, "bin/bridge"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  const answer = "Network plugin returns error: the IPAM daemon is starting";
  expect(await read(false, undefined, answer)).toEqual([answer, 1]);
});

test("a network that is ready costs no further call, and a runtime that does not tell its folders keeps its words", async () => {
  expect(await read(true)).toEqual(["", 0]);
  const refused = async () => Promise.reject(new CriError("UNAVAILABLE", "Status", "the runtime is away"));
  expect(await read(false, refused)).toEqual([words, 1]);
});
