// The agent's part of the network in a process of its own, which tests stop and kill. Arguments: root directory, delegate's
// folder, `--network`, and the ready sandboxes of a runtime, which is listed once; without that argument it never is. A request on `status.sock`
// of the root directory reads the condition NetworkReady.

import { join } from "node:path";
import { networkSources } from "../../agent/config/config.ts";
import { createKubeletMetrics } from "../../agent/serve/metrics/kubelet-metrics.ts";
import { openOwnedNetwork } from "../../agent/wiring/network-owner.ts";
import { createEventSource } from "../../host/async/event-source.ts";
import { createClock } from "../../host/clock.ts";
import { createExec } from "../../host/exec.ts";
import { createFiles } from "../../host/fs/files.ts";
import { createMounts } from "../../host/fs/mounts.ts";
import { statSync } from "../../host/fs/stat-sync.ts";
import { PodSandbox, PodSandboxState, StatusResponse } from "../../proto/cri/gen/api.ts";
import { FakeLog } from "../fakes/log.ts";

const [rootDir = "", delegateDir = "", wanted, sandboxIds] = process.argv.slice(2);
const sandboxes = (sandboxIds?.split(",") ?? []).map((id) =>
  PodSandbox.fromPartial({ id, state: PodSandboxState.SANDBOX_READY }),
);
const networkAuditDue = createEventSource();
const source = networkSources.find((each) => each === wanted) ?? "chain";
const hostFiles = createFiles("/");
const network = await openOwnedNetwork(
  {
    network: { source, owner: "agent", delegateDir, podCIDRs: [] },
    ...{ clusterConfigSource: undefined, runtimeRequestTimeoutMs: 120_000 },
  },
  {
    ...{ hostFiles, statSync, mounts: createMounts() },
    ...{ env: process.env, log: new FakeLog(), metrics: createKubeletMetrics() },
    runtime: { verboseStatus: async () => StatusResponse.fromPartial({}) },
    exec: createExec(),
    root: createFiles(rootDir),
    clock: createClock(),
  },
);
await network?.serve(undefined, { onPluginCallFinished() {} });
network?.audit({ runtime: { listPodSandbox: async () => sandboxes }, agent: { networkAuditDue } });
const readStatus = network?.withCondition(async () =>
  StatusResponse.fromPartial({ status: { conditions: [{ type: "NetworkReady", status: true }] } }),
);
Bun.serve({
  unix: join(rootDir, "status.sock"),
  fetch: async () => Response.json((await readStatus?.())?.status?.conditions[0]),
});
process.stdout.write("served\n");
if (sandboxIds !== undefined) networkAuditDue.emit();
