import { usedVolumes } from "../../../proto/kubernetes/volumes.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import type { KubeletMetrics } from "./kubelet-metrics.ts";
import type { TrackedPod } from "./pod-recorder.ts";
import { type ClaimedSource, volumePluginName } from "./volume-plugin.ts";

/** The label `lifecycle` of each stage. */
const lifecycles: Readonly<Record<StageKind, string>> = {
  syncing: "sync",
  terminating: "terminating",
  terminated: "terminated",
  finished: "terminated",
};

/** What a page says of the pods as they are now. */
export function setPodGauges(
  { kubelet }: Pick<KubeletMetrics, "kubelet">,
  tracked: Iterable<TrackedPod>,
  claimedSource: ClaimedSource,
): void {
  const pods = [...tracked];
  const desired = pods.flatMap((each) => each.desired ?? []);
  const countOf = (condition: (pod: TrackedPod) => boolean) => pods.filter(condition).length;
  kubelet.set(
    "kubelet_running_pods",
    countOf(({ hasRunningSandbox }) => hasRunningSandbox),
  );
  const states = Object.groupBy(
    pods.flatMap(({ containerStates }) => containerStates),
    (state) => state,
  );
  for (const state of ["created", "running", "exited", "unknown"] as const)
    kubelet.set("kubelet_running_containers", states[state]?.length ?? 0, [state]);
  for (const isStaticPod of [false, true]) {
    const label = isStaticPod ? "true" : "";
    const ofSource = (each: TrackedPod) => each.desired !== undefined && isStatic(each.desired) === isStaticPod;
    kubelet.set(
      "kubelet_desired_pods",
      countOf((each) => ofSource(each) && isWanted(each)),
      [label],
    );
    kubelet.set(
      "kubelet_active_pods",
      countOf((each) => ofSource(each) && isActive(each)),
      [label],
    );
    for (const lifecycle of new Set(Object.values(lifecycles)))
      for (const config of ["desired", "orphan"]) {
        const isCounted = (each: TrackedPod) => lifecycles[each.stage] === lifecycle && configOf(each) === config;
        kubelet.set(
          "kubelet_working_pods",
          countOf((each) => ofSource(each) && isCounted(each)),
          [config, lifecycle, label],
        );
      }
  }
  kubelet.set("kubelet_mirror_pods", desired.filter((pod) => isStatic(pod) && pod.admission === undefined).length);
  const ephemeral = desired.flatMap(({ pod }) => pod.spec.ephemeralContainers ?? []);
  kubelet.set("kubelet_managed_ephemeral_containers", ephemeral.length);
  setResizeGauges({ kubelet }, pods);
  setVolumeGauges({ kubelet }, pods, claimedSource);
}

const isStatic = ({ source }: DesiredPod) => source.kind !== "api";
/** Its source still lists it, and nothing else has requested its end. */
const isWanted = ({ desired }: TrackedPod) => desired?.termination === undefined;
const configOf = (each: TrackedPod) => (isWanted(each) ? "desired" : "orphan");
/** It counts when the node admits another pod. */
const isActive = ({ desired, status }: TrackedPod) =>
  desired?.admission === undefined && status?.phase !== "Failed" && status?.phase !== "Succeeded";

function setResizeGauges({ kubelet }: Pick<KubeletMetrics, "kubelet">, pods: readonly TrackedPod[]): void {
  const conditions = pods.flatMap(({ status }) => status?.conditions ?? []);
  const isTrue = (type: string) => conditions.filter((each) => each.type === type && each.status === "True");
  kubelet.set("kubelet_pod_in_progress_resizes", isTrue("PodResizeInProgress").length);
  kubelet.clear("kubelet_pod_pending_resizes");
  for (const { reason = "" } of isTrue("PodResizePending"))
    kubelet.add("kubelet_pod_pending_resizes", [reason.toLowerCase()]);
}

function setVolumeGauges(
  { kubelet }: Pick<KubeletMetrics, "kubelet">,
  pods: readonly TrackedPod[],
  claimedSource: ClaimedSource,
): void {
  kubelet.clear("volume_manager_total_volumes");
  for (const each of pods) {
    const pod = each.desired?.pod;
    const count = (volume: string, state: string) =>
      kubelet.add("volume_manager_total_volumes", [volumePluginName(pod, volume, claimedSource), state]);
    for (const volume of each.volumes) count(volume, "actual_state_of_world");
    if (pod === undefined || !isActive(each)) continue;
    for (const { name } of usedVolumes(pod.spec)) count(name, "desired_state_of_world");
  }
}
