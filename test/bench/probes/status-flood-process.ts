// Runs the agent's pod status report with more changes than any real node has. Receives the node and the rate over its
// IPC channel, reports a new status of one pod after the other, and finally sends the times of the changes.
import { createPodStatusReporter } from "../../../agent/report/pod/status-reporter.ts";
import { createClock } from "../../../host/clock.ts";
import { createExec } from "../../../host/exec.ts";
import { createFiles } from "../../../host/fs/files.ts";
import { createLog } from "../../../host/log/log.ts";
import { readKubeconfig } from "../../../kube/auth/kubeconfig.ts";
import { createKubeClient } from "../../../kube/client.ts";
import { pods } from "../../../kube/resource.ts";
import { createKubeConnection } from "../../../kube/transport/connection.ts";
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
  const log = await createLog({ format: "json", level: "error", write: (line) => process.stderr.write(line) });
  const deps = { files: createFiles("/"), environment: {}, clock, log, exec: createExec() };
  const cluster = await readKubeconfig({ ...deps, path: kubeconfig });
  const rateLimits = { main: rate, events: undefined };
  const connection = createKubeConnection({
    cluster,
    nodeName,
    userAgent: "berth-bench",
    rateLimits,
    clock,
    random,
    log,
  });
  const kube = createKubeClient({ connection, clock, log, random });
  const report = createPodStatusReporter({ kube, clock, log, random, saveFinalStatus: () => Promise.resolve() });
  const own = await watchOwnPods(kube, report, nodeName, count);
  const changes = await reportAll(own, report, perSecond, lastMs);
  await report.settled();
  return changes;
}

type StatusReport = ReturnType<typeof createPodStatusReporter>;

/** Watches the node's pods, as the agent does, because each patch is computed against the pod that the API shows. */
async function watchOwnPods(
  kube: ReturnType<typeof createKubeClient>,
  report: StatusReport,
  nodeName: string,
  count: number,
) {
  const all = Promise.withResolvers<readonly Pod[]>();
  const nothing = () => undefined;
  const listener = {
    onReplaced(objects: readonly Pod[]) {
      for (const pod of objects) report.onObserved(pod);
      if (objects.length === count) all.resolve(objects);
      else all.reject(new Error(`the API lists ${objects.length} pods instead of ${count}`));
    },
    onChanged: (_kind: string, pod: Pod) => report.onObserved(pod),
    onOutage: all.reject,
    onRecovered: nothing,
  };
  void kube.listAndWatch(
    pods(),
    { fieldSelector: `spec.nodeName=${nodeName}` },
    listener,
    new AbortController().signal,
  );
  return await all.promise;
}

/** Reports the given number of changes per second, also when the timer fires late. */
function reportAll(
  own: readonly Pod[],
  report: StatusReport,
  perSecond: number,
  lastMs: number,
): Promise<readonly StatusChange[]> {
  const changes: StatusChange[] = [];
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      const elapsedMs = Math.min(performance.now() - startedAt, lastMs);
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

/** The status of a pod that becomes ready and unready in turn. Its restart count is the number of the change. */
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
