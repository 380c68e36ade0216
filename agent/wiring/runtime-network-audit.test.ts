import { expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CacheEntry, cacheFileName, encodeCacheEntry } from "../../cni/cache-entry.ts";
import { createEventSource } from "../../host/async/event-source.ts";
import { ExecError } from "../../host/exec.ts";
import { createFiles } from "../../host/fs/files.ts";
import { StatusResponse } from "../../proto/cri/gen/api.ts";
import { pollUntil } from "../../test/bed/poll-until.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { auditRuntimeNetwork } from "./runtime-network-audit.ts";

/** What a runtime has cached of a pod whose network namespace is gone. */
const entry: CacheEntry = {
  ...{ network: "pods", containerId: "3f2a", ifName: "eth0", netns: "/run/netns/gone" },
  ...{ args: new Map([["K8S_POD_INFRA_CONTAINER_ID", "3f2a"]]), capabilityArgs: {}, result: {} },
  config: JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "bridge" }] }),
};

test("an audit of the runtime's network names the plugin whose DEL hangs", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-runtime-audit-"));
  const [results, binDir] = [join(folder, "results"), join(folder, "bin")];
  for (const path of [results, binDir]) await mkdir(path);
  await writeFile(join(binDir, "bridge"), "", { mode: 0o755 });
  const file = join(results, cacheFileName(entry));
  await writeFile(file, encodeCacheEntry(entry));
  // Before the machine has booted.
  await utimes(file, 0, 0);
  const [log, runtimeListed] = [new FakeLog(), createEventSource()];
  const config = JSON.stringify({ cni: { confDir: "/etc/cni/net.d", binDirs: [binDir] } });
  const audit = auditRuntimeNetwork({
    runtime: {
      listPodSandbox: async () => [],
      verboseStatus: async () => StatusResponse.fromPartial({ info: { config } }),
    },
    agent: { runtimeListed },
    exec: {
      run: (argv, { timeoutMs }) =>
        Promise.reject(new ExecError(argv, undefined, "", `${argv[0]} did not end within ${timeoutMs} ms`)),
    },
    ...{ hostFiles: createFiles("/"), env: {}, cacheDir: folder, clock: new FakeClock(), log },
  });
  runtimeListed.emit();
  const { fields } = await pollUntil("a warning", 5_000, () => log.lines.find(({ level }) => level === "warn"));
  expect(fields).toEqual({
    attachment: "pods 3f2a eth0",
    reason: `bridge: ${binDir}/bridge did not end within 52500 ms`,
  });
  await audit.stop();
  await rm(folder, { recursive: true });
});
