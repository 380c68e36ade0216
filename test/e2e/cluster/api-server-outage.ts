import { expect } from "bun:test";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ContainerState } from "../../../proto/cri/gen/api.ts";
import { podNameLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { type AuditLog, firstSuccessAt } from "../../bench/cluster/audit-log.ts";
import { script } from "../manifest.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady, type ClusterNode } from "./node.ts";

/** Both containers end when the test creates the file `end`, after it has stopped the API server. The next instance of the second one runs forever. */
const endsOnFile = script("until test -e /notes/end; do sleep 0.1; done; exit 7");
const endsOnceOnFile = script(
  "test -e /notes/again && exec sleep 1000000; until test -e /notes/end; do sleep 0.1; done; touch /notes/again; exit 7",
);

/** After the API server is ready, it receives the agent's first request that succeeds within this time (docs/node.md). */
const RECONNECT_MS = 2_000;

/**
 * Stops the API server for `outageMs`, at least fifteen seconds, and starts it with another certificate. Meanwhile one
 * pod ends, one restarts, and one stays. Checks that the agent's first request that succeeds is in the audit log of the API
 * server within two seconds after it is ready, and all of the changes in the API within five.
 */
export async function checkOutage(cluster: ClusterNode, audit: AuditLog, outageMs: number): Promise<void> {
  const folder = await mkdtemp(join(cluster.node.folder, "notes-"));
  const volumeMounts = [{ name: "notes", mountPath: "/notes" }];
  const volumes = [{ name: "notes", hostPath: { path: folder } }];
  await cluster.apply([
    barePod("ends", { command: endsOnFile, volumeMounts }, { restartPolicy: "Never", volumes }),
    barePod("restarts", { command: endsOnceOnFile, volumeMounts }, { volumes }),
    barePod("stays"),
  ]);
  await cluster.kubectl("wait", "--for=condition=Ready", "pod/ends", "pod/restarts", "pod/stays", "--timeout=180s");
  const stays = await cluster.pod("stays");
  const restarts = await cluster.pod("restarts");
  await cluster.plane.stopApiServer();
  await writeFile(join(folder, "end"), "");
  await pollUntil("the end of one container, and the next instance of the other", 60_000, async () => {
    const containers = await cluster.node.containers();
    const has = (pod: string, attempt: number, inState: ContainerState) =>
      containers.some(
        ({ labels, metadata, state }) =>
          labels[podNameLabel] === pod && metadata?.attempt === attempt && state === inState,
      );
    return has("ends", 0, ContainerState.CONTAINER_EXITED) && has("restarts", 1, ContainerState.CONTAINER_RUNNING);
  });
  await pause(outageMs);
  const returned = Date.now();
  await cluster.plane.restartApiServer({ newCertificate: true });
  const [back, ready] = [performance.now(), Date.now()];
  const [ends] = await cluster.waitForPods("its end", "ends", ([pod]) => pod?.status?.phase === "Failed", 15_000);
  const { exitCode, reason, finishedAt } = ends?.status?.containerStatuses?.[0]?.state?.terminated ?? {};
  expect({ exitCode, reason }).toEqual({ exitCode: 7, reason: "Error" });
  // The time of the end, not of the report.
  expect(Date.parse(finishedAt!)).toBeLessThan(returned - 5_000);
  const [again] = await cluster.waitForPods(
    "its restart",
    "restarts",
    (pods) => pods.every(areContainersReady),
    15_000,
  );
  expect(performance.now() - back).toBeLessThan(5_000);
  const reconnectedMs = firstSuccessAt(await audit.eventsOf(cluster.node.name), returned) - ready;
  console.log(`the first request that succeeded came ${reconnectedMs} ms after the API server was ready`);
  expect(reconnectedMs).toBeLessThan(RECONNECT_MS);
  const { restartCount, containerID } = again?.status?.containerStatuses?.[0] ?? {};
  expect(restartCount).toBe(1);
  expect(containerID).not.toBe(restarts.status?.containerStatuses?.[0]?.containerID);
  // The node controller may have marked the node and its pods as not ready for a moment.
  const [same] = await cluster.waitForPods("it is up", "stays", (pods) => pods.every(areContainersReady), 15_000);
  expect(same?.status?.containerStatuses).toEqual(stays.status!.containerStatuses!);
  await cluster.kubectl("wait", "--for=condition=Ready", "node/node-a", "--timeout=180s");

  await cluster.kubectl("delete", "pod", "ends", "restarts", "stays", "--timeout=180s");
  await cluster.waitUntilEmpty();
}
