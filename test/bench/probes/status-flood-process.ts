// The part of the agent that tells the API server of pods, as one node's, with more to tell than any node has: told over its IPC channel
// what the node is, it reports a new status of one pod after the other, and says in the end when it did so.
import { createPodStatusReport } from "../../../agent/report/pod/status-reporter.ts";
import { createClock } from "../../../host/clock.ts";
import { createExec } from "../../../host/exec.ts";
import { createFiles } from "../../../host/fs/files.ts";
import { createLog } from "../../../host/log.ts";
import { readKubeconfig } from "../../../kube/auth/kubeconfig.ts";
import { createKube } from "../../../kube/client.ts";
import { pods } from "../../../kube/resource.ts";
import { createConnection } from "../../../kube/transport/connection.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { FloodOrder } from "./status-flood.ts";
import type { StatusChange } from "./status-latency.ts";

process.once("message", (order: FloodOrder) => {
  flood(order).then(
    (changes) => process.send?.({ changes }),
    (error: unknown) => process.send?.({ problem: String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));

async function flood({ kubeconfig, nodeName, pods: count, rate, perSecond, lastMs }: FloodOrder) {
  const [clock, random] = [createClock(), Math.random];
  const log = createLog({ format: "json", level: "error", write: (line) => process.stderr.write(line) });
  const told = { files: createFiles("/"), environment: {}, clock, log, exec: createExec() };
  const cluster = await readKubeconfig({ ...told, path: kubeconfig });
  const rates = { main: rate, events: undefined };
  const connection = createConnection({ cluster, nodeName, userAgent: "berth-bench", rates, clock, random, log });
  const kube = createKube({ connection, clock, log, random });
  const report = createPodStatusReport({ kube, clock, log, random, keepLast: () => Promise.resolve() });
  const own = await followOwn(kube, report, nodeName, count);
  const changes = await reportAll(own, report, perSecond, lastMs);
  await report.settled();
  return changes;
}

type Report = ReturnType<typeof createPodStatusReport>;

/** As the agent does it: what the API shows is what the next patch is made against. */
async function followOwn(kube: ReturnType<typeof createKube>, report: Report, nodeName: string, count: number) {
  const all = Promise.withResolvers<readonly Pod[]>();
  const nothing = () => undefined;
  const listener = {
    replaced(objects: readonly Pod[]) {
      for (const pod of objects) report.seen(pod);
      if (objects.length === count) all.resolve(objects);
      else all.reject(new Error(`${objects.length} pods are there instead of ${count}`));
    },
    changed: (_kind: string, pod: Pod) => report.seen(pod),
    away: all.reject,
    back: nothing,
  };
  void kube.follow(pods(), { fieldSelector: `spec.nodeName=${nodeName}` }, listener, new AbortController().signal);
  return await all.promise;
}

/** So many changes a second, however late a timer rings. */
function reportAll(
  own: readonly Pod[],
  report: Report,
  perSecond: number,
  lastMs: number,
): Promise<readonly StatusChange[]> {
  const changes: StatusChange[] = [];
  const began = performance.now();
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      const elapsedMs = Math.min(performance.now() - began, lastMs);
      while (changes.length < (elapsedMs * perSecond) / 1000) {
        const pod = own[changes.length % own.length];
        if (pod === undefined) return;
        const number = Math.floor(changes.length / own.length) + 1;
        changes.push({ pod: pod.metadata.name ?? "", at: Date.now() });
        const uid = pod.metadata.uid as PodUid;
        const desired = { uid, pod, source: { kind: "api" }, acceptedAt: 0, revision: 0 } as const;
        report.report(desired, statusOf(pod, number), "syncing");
      }
      if (elapsedMs < lastMs) return;
      clearInterval(timer);
      resolve(changes);
    }, 1);
  });
}

/** A pod that becomes ready and unready; its count of restarts is the number of the word. */
function statusOf({ spec }: Pod, number: number): PodStatus {
  const isReady = number % 2 === 0;
  const status = isReady ? "True" : "False";
  const [{ name, image = "" } = { name: "", image: "" }] = spec.containers;
  const running = { startedAt: "2026-01-01T00:00:00Z" };
  return {
    phase: "Running",
    conditions: (["Ready", "ContainersReady"] as const).map((type) => ({ type, status })),
    containerStatuses: [{ name, image, imageID: image, ready: isReady, restartCount: number, state: { running } }],
  };
}
