import { describe, expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ActionResult } from "../../decide/pod/memory.ts";
import { formatExposition } from "../stats/exposition.ts";
import { createKubeletMetrics } from "./kubelet-metrics.ts";
import { setPodGauges } from "./pod-gauges.ts";
import { createPodRecorder } from "./pod-recorder.ts";
import { createProbeRecorder } from "./probe-recorder.ts";

const uid = "u-1" as PodUid;
const pod: Pod = {
  metadata: { namespace: "default", name: "web", uid, creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: {
    containers: [{ name: "main", image: "web:1" }],
    volumes: [{ name: "settings", configMap: { name: "settings" } }],
  },
};
const desired: DesiredPod = { uid, pod, source: { kind: "api" }, acceptedAt: 0, revision: 0 };
const failed: ActionResult = { ok: false, reason: "ErrImagePull", message: "no such image", isOutage: false };

function startRecorder() {
  const clock = new FakeClock();
  const metrics = createKubeletMetrics();
  const recorder = createPodRecorder(metrics, {
    clock,
    claimedSource: () => undefined,
    runtimeHandler: () => "",
    imageSizeBytes: async () => 20 * 2 ** 20,
  });
  const finish = (action: Action, result: ActionResult | "cancelled" = { ok: true }, ms = 250) =>
    recorder.onActionFinished({ uid, pod: "default/web", action, startedAt: 1_000, endedAt: 1_000 + ms, result });
  /** The samples whose line contains a text. */
  const samples = (text: string) =>
    [metrics.kubelet, metrics.probes]
      .flatMap((store) => formatExposition(store.families(), "text").split("\n"))
      .filter((line) => !line.startsWith("#") && line.includes(text));
  const decide = (status: PodStatus, stage: "syncing" | "terminating" = "syncing") =>
    recorder.onStatusDecided({ uid, desired, status, stage });
  return { clock, metrics, recorder, finish, samples, decide };
}

const running = (startedAt = "2026-01-01T00:00:05Z"): PodStatus => ({
  phase: "Running",
  containerStatuses: [
    { name: "main", image: "", imageID: "", ready: true, restartCount: 0, state: { running: { startedAt } } },
  ],
});

test("the start of a pod is measured from when the node has seen it, and when it runs", async () => {
  const { clock, recorder, decide, samples } = startRecorder();
  recorder.onPodUpdated(desired);
  await clock.advance(40);
  recorder.onSynced(uid, { startedMs: clock.monotonicMs(), endedMs: clock.monotonicMs() + 5 });
  decide({ phase: "Pending" });
  await clock.advance(1_960);
  decide(running());
  decide(running());
  expect(samples("kubelet_pod_start_duration_seconds_sum")).toEqual(["kubelet_pod_start_duration_seconds_sum 2"]);
  expect(samples("kubelet_pod_start_duration_seconds_count")).toEqual(["kubelet_pod_start_duration_seconds_count 1"]);
  expect(samples("kubelet_pod_worker_start_duration_seconds_sum")).toEqual([
    "kubelet_pod_worker_start_duration_seconds_sum 0.04",
  ]);
});

test("a pod that an earlier agent has started is not measured", () => {
  const { recorder, decide, samples } = startRecorder();
  recorder.onPodUpdated({ ...desired, isRestored: true });
  decide({ phase: "Pending" });
  decide(running());
  expect(samples("kubelet_pod_start_duration_seconds_count")).toEqual(["kubelet_pod_start_duration_seconds_count 0"]);
});

test("the kinds of syncs are the kubelet's", () => {
  const { recorder, decide, samples } = startRecorder();
  recorder.onPodUpdated(desired);
  const sync = () => recorder.onSynced(uid, { startedMs: 0, endedMs: 1_000 });
  sync();
  sync();
  recorder.onPodUpdated({ ...desired, revision: 1 });
  sync();
  decide(running(), "terminating");
  sync();
  recorder.onPodFinished(uid);
  sync();
  expect(samples("kubelet_pod_worker_duration_seconds_count")).toEqual(
    ["create", "kill", "sync", "terminated", "update"].map(
      (type) => `kubelet_pod_worker_duration_seconds_count{operation_type="${type}"} 1`,
    ),
  );
});

test("the SLI leaves out pulls, of which those at the same time count once", async () => {
  const { clock, recorder, samples } = startRecorder();
  recorder.onPodUpdated(desired);
  const pull = (startedAt: number, endedAt: number, image: string) =>
    recorder.onActionFinished({
      ...{ uid, pod: "default/web", startedAt, endedAt, result: { ok: true } as const },
      action: { kind: "pullImage", image, why: "" },
    });
  pull(1_000, 3_000, "a");
  pull(2_000, 4_000, "b");
  const created = Date.parse("2026-01-01T00:00:00Z");
  await clock.advance(created + 10_000 - clock.now());
  recorder.onStatusSaved(uid, { ...pod, status: running() }, 20);
  recorder.onStatusSaved(uid, { ...pod, status: running() }, 20);
  expect(samples("kubelet_pod_start_sli_duration_seconds_sum")).toEqual([
    "kubelet_pod_start_sli_duration_seconds_sum 7",
  ]);
  expect(samples("kubelet_pod_start_total_duration_seconds_sum")).toEqual([
    "kubelet_pod_start_total_duration_seconds_sum 10",
  ]);
  expect(samples("kubelet_pod_status_sync_duration_seconds_count")).toEqual([
    "kubelet_pod_status_sync_duration_seconds_count 2",
  ]);
});

test("each end of a container counts once", () => {
  const { recorder, decide, samples } = startRecorder();
  recorder.onPodUpdated(desired);
  const main = { name: "main", image: "", imageID: "", ready: false, restartCount: 0 };
  const ended = { terminated: { exitCode: 2, reason: "Error" } };
  decide({ phase: "Running", containerStatuses: [{ ...main, state: ended }] });
  decide({ phase: "Running", containerStatuses: [{ ...main, state: ended }] });
  decide(running());
  decide({ phase: "Running", containerStatuses: [{ ...main, state: ended }] });
  expect(samples("terminated_containers_total")).toEqual([
    'kubelet_terminated_containers_total{container_type="container",exit_code="2",reason="Error"} 2',
  ]);
});

test("a rejection counts once, under the kubelet's reason", () => {
  for (const [reason, counted] of [
    ["OutOfcpu", "OutOfcpu"],
    ["OutOfexample.com/dongle", "OutOfExtendedResources"],
    ["NodeAffinity", "Other"],
  ] as const) {
    const { recorder, samples } = startRecorder();
    const rejected: DesiredPod = { ...desired, admission: { kind: "rejected", reason, message: "" } };
    recorder.onPodUpdated({ ...desired, admission: { kind: "awaited" } });
    recorder.onPodUpdated(rejected);
    recorder.onPodUpdated(rejected);
    expect(samples("admission_rejections")).toEqual([`kubelet_admission_rejections_total{reason="${counted}"} 1`]);
  }
});

describe("actions", () => {
  test("of volumes have the kubelet's names of plugins", () => {
    const { recorder, finish, samples } = startRecorder();
    recorder.onPodUpdated(desired);
    finish({ kind: "makeResource", resource: { of: "volume", name: "settings" } });
    finish(
      { kind: "makeResource", resource: { of: "volume", name: "settings" } },
      { ...failed, reason: "FailedMount" },
    );
    finish({ kind: "removeResource", resource: { of: "volume", name: "settings" }, why: "" }, "cancelled");
    const labels = 'operation_name="volume_mount"';
    expect(samples("storage_operation_duration_seconds_count")).toEqual([
      `storage_operation_duration_seconds_count{migrated="false",${labels},status="fail-unknown",volume_plugin="kubernetes.io/configmap"} 1`,
      `storage_operation_duration_seconds_count{migrated="false",${labels},status="success",volume_plugin="kubernetes.io/configmap"} 1`,
    ]);
    expect(samples("storage_operation_errors_total")).toEqual([
      `storage_operation_errors_total{${labels},volume_plugin="kubernetes.io/configmap"} 1`,
    ]);
  });

  test("that start something count attempts, and failures by their reason", async () => {
    const { recorder, finish, samples } = startRecorder();
    recorder.onPodUpdated(desired);
    finish({ kind: "runSandbox", attempt: 0, crashes: 0, why: "" });
    finish({ kind: "pullImage", image: "web:1", why: "" }, failed);
    finish({ kind: "pullImage", image: "web:1", why: "" });
    await Promise.resolve();
    expect(samples("kubelet_started_pods_total")).toEqual(["kubelet_started_pods_total 1"]);
    expect(samples("kubelet_started_containers_errors_total")).toEqual([
      'kubelet_started_containers_errors_total{code="ErrImagePull",container_type="container"} 1',
    ]);
    expect(samples("kubelet_image_pull_duration_seconds_count")).toEqual([
      'kubelet_image_pull_duration_seconds_count{image_size_in_bytes="10MB-100MB"} 1',
    ]);
  });
});

test("the gauges count the pods as they are now", () => {
  const { metrics, recorder, finish, decide, samples } = startRecorder();
  recorder.onPodUpdated(desired);
  decide({ phase: "Pending" });
  finish({ kind: "makeResource", resource: { of: "volume", name: "settings" } });
  setPodGauges(metrics, recorder.pods(), () => undefined);
  expect(samples("kubelet_desired_pods")).toEqual([
    'kubelet_desired_pods{static=""} 1',
    'kubelet_desired_pods{static="true"} 0',
  ]);
  expect(samples("volume_manager_total_volumes")).toEqual([
    'volume_manager_total_volumes{plugin_name="kubernetes.io/configmap",state="actual_state_of_world"} 1',
  ]);
  recorder.onPodFinished(uid);
  setPodGauges(metrics, recorder.pods(), () => undefined);
  expect(samples('kubelet_desired_pods{static=""}')).toEqual(['kubelet_desired_pods{static=""} 0']);
  expect(samples("volume_manager_total_volumes")).toEqual([]);
});

test("a pod that has finished is not seen again while its source still has it, but is when it comes back", () => {
  const { metrics, recorder, samples } = startRecorder();
  const desiredCount = () => {
    setPodGauges(metrics, recorder.pods(), () => undefined);
    return samples('kubelet_desired_pods{static=""}');
  };
  recorder.onPodUpdated(desired);
  recorder.onPodFinished(uid);
  recorder.onPodUpdated({ ...desired, revision: 1 });
  expect(desiredCount()).toEqual(['kubelet_desired_pods{static=""} 0']);
  recorder.onPodRemoved(uid);
  recorder.onPodUpdated(desired);
  expect(desiredCount()).toEqual(['kubelet_desired_pods{static=""} 1']);
  expect(samples("kubelet_containers_per_pod_count_count")).toEqual(["kubelet_containers_per_pod_count_count 2"]);
});

test("the probes of a pod are forgotten with it", () => {
  const { metrics, recorder, samples } = startRecorder();
  recorder.onPodUpdated(desired);
  const recordProbe = createProbeRecorder(metrics);
  const probe = { uid, pod, container: { name: "main" }, kind: "liveness" } as const;
  recordProbe(probe, { result: "success", message: "" }, 20);
  recordProbe(probe, { result: "failure", message: "" }, 20);
  recordProbe(probe, { result: "error", message: "" }, 20);
  const labels = 'container="main",namespace="default",pod="web"';
  expect(samples("prober_probe_total")).toEqual([
    `prober_probe_total{${labels},pod_uid="u-1",probe_type="Liveness",result="failed"} 1`,
    `prober_probe_total{${labels},pod_uid="u-1",probe_type="Liveness",result="successful"} 1`,
  ]);
  expect(samples("prober_probe_duration_seconds_count")).toEqual([
    `prober_probe_duration_seconds_count{${labels},probe_type="Liveness"} 1`,
  ]);
  recorder.onPodFinished(uid);
  expect(samples("prober_probe")).toEqual([]);
});
