// Serves routes of the node's API in a process of its own, so that its memory, descriptors and wake-ups are those of the
// server alone: `bun test/fakes/api-server-process.ts`. It prints its port, and a line after each collection of garbage, which
// a line of its input starts. It ends with its input.
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createApiServer } from "../../agent/serve/api/api-server.ts";
import { apiConnectionLimits } from "../../agent/serve/api/connections.ts";
import { createContainerEnds } from "../../agent/serve/logs/container-ends.ts";
import { createContainerLogs } from "../../agent/serve/logs/container-logs.ts";
import { createLogRoutes } from "../../agent/serve/logs/log-routes.ts";
import { createClock } from "../../host/clock.ts";
import { createFiles } from "../../host/fs/files.ts";
import { createReleaseMemory } from "../../host/release-memory.ts";
import { ContainerState, ContainerStatus } from "../../proto/cri/gen/api.ts";
import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { createCertificateAuthority } from "../upstream/pki.ts";
import { FakeLog } from "./log.ts";
import { createOddRequestRoutes } from "./odd-request-routes.ts";

/** A log keeps no line here: its memory is not the server's. */
class EmptyLog extends FakeLog {
  override debug = () => {};
  override info = () => {};
  override warn = () => {};
  override error = () => {};
}

const clock = createClock();
/** The log `1.log` of a container that runs, in the folder that is the program's argument. */
const [, , folder = ""] = process.argv;
const status: PodStatus = {
  containerStatuses: [
    {
      ...{ name: "c", image: "", imageID: "", ready: true, restartCount: 0, containerID: "containerd://id" },
      state: { running: { startedAt: "2026-01-01T00:00:00Z" } },
    },
  ],
};
const containerLogs = createContainerLogs({
  runtime: {
    containerStatus: async (id) =>
      ContainerStatus.fromPartial({
        id,
        state: ContainerState.CONTAINER_RUNNING,
        logPath: join(folder, "1.log"),
      }),
  },
  logs: createFiles(folder),
  clock,
  findPod: (namespace, name) => ({
    metadata: { namespace, name, uid: "u-1" },
    spec: { containers: [{ name: "c" }] },
    status,
  }),
  ends: createContainerEnds(),
  splitsStreams: false,
});

const server = createApiServer({
  routes: [
    ...createOddRequestRoutes({ onSession: () => {}, onSessionEnd: () => {} }),
    ...createLogRoutes({ containerLogs, clock }),
  ],
  authenticator: {
    authenticate: async ({ authorization }) =>
      authorization === undefined ? { username: "anna", groups: [] } : undefined,
  },
  authorizer: { isAllowed: async () => true },
  tls: createCertificateAuthority("serving").issue({ commonName: "node", hosts: ["127.0.0.1"] }),
  limits: apiConnectionLimits,
  clock,
  log: new EmptyLog(),
});
const releaseMemory = createReleaseMemory();
console.log(await server.listen(0, "127.0.0.1"));
for await (const line of createInterface({ input: process.stdin })) {
  releaseMemory();
  console.log(line);
}
process.exit(0);
