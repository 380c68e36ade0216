import type { Clock } from "../../../host/clock.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { imageUseOf } from "../../decide/container/image.ts";
import type { ActionFinished } from "../../decide/pod/action-call.ts";
import type { ActionResult } from "../../decide/pod/memory.ts";
import { containerTypeOf } from "./container-type.ts";
import type { KubeletMetrics } from "./kubelet-metrics.ts";
import { type ClaimedSource, volumePluginName } from "./volume-plugin.ts";

export interface ActionRecorderDeps {
  readonly clock: Pick<Clock, "now" | "monotonicMs">;
  readonly claimedSource: ClaimedSource;
  /** The runtime handler of the pod's RuntimeClass, empty for the default one. */
  readonly runtimeHandler: (pod: Pod) => string;
  /** An image's size by the runtime; undefined if it is unknown. */
  readonly imageSizeBytes: (image: string) => Promise<number | undefined>;
}

/** Returns the function that records an action that has succeeded or failed. A cancelled one says nothing. */
export function createActionRecorder(
  metrics: KubeletMetrics,
  deps: ActionRecorderDeps,
): (finished: ActionFinished, pod: Pod | undefined) => void {
  return (finished, pod) => {
    const { result } = finished;
    if (result !== "cancelled") recordResult({ ...deps, ...metrics }, { ...finished, pod, result });
  };
}

type Recorder = ActionRecorderDeps & Pick<KubeletMetrics, "kubelet">;

interface EndedAction extends Pick<ActionFinished, "action" | "startedAt" | "endedAt"> {
  readonly result: ActionResult;
  readonly pod: Pod | undefined;
}

function recordResult(recorder: Recorder, ended: EndedAction): void {
  const { kubelet } = recorder;
  const { action, result, pod } = ended;
  if (result.ok && result.plainHttpHost !== undefined) kubelet.add("kubelet_lifecycle_handler_http_fallbacks_total");
  switch (action.kind) {
    case "runSandbox":
      recordSandbox(recorder, ended);
      return;
    case "pullImage":
      recordPull(recorder, action.image, ended);
      return;
    case "createContainer": {
      const { length: images } = action.imageVolumes ?? [];
      kubelet.add("kubelet_started_containers_total", [containerTypeOf(pod, action.name)]);
      kubelet.add("kubelet_image_volume_requested_total", [], images);
      kubelet.add(`kubelet_image_volume_mounted_${result.ok ? "succeed" : "errors"}_total`, [], images);
      recordStart(recorder, action.name, ended);
      return;
    }
    case "startContainer":
      recordStart(recorder, action.name, ended);
      return;
    case "makeResource":
    case "removeResource": {
      const { resource, kind } = action;
      const isMade = kind === "makeResource";
      if (resource.of === "volume") recordVolume(recorder, isMade ? "mount" : "unmount", resource.name, ended);
      if (resource.of === "cgroup") recordCgroup(recorder, isMade ? "create" : "destroy", ended);
      return;
    }
    case "mountVolume":
    case "updateVolume":
      recordVolume(recorder, "mount", action.name, ended);
      return;
    case "writePodCgroup":
      recordCgroup(recorder, "update", ended);
      return;
    case "updateContainerResources":
    case "updatePodSandboxResources":
      kubelet.observe("kubelet_pod_resize_duration_milliseconds", secondsOf(ended) * 1000, [String(result.ok)]);
      return;
    case "removeContainer":
    case "stopSandbox":
    case "removeSandbox":
    case "runPostStart":
    case "runPreStop":
    case "stopContainer":
      return;
  }
}

const secondsOf = ({ startedAt, endedAt }: Pick<EndedAction, "startedAt" | "endedAt">) => (endedAt - startedAt) / 1000;

function recordSandbox({ kubelet, runtimeHandler }: Recorder, ended: EndedAction): void {
  const { pod, result } = ended;
  const handler = [pod === undefined ? "" : runtimeHandler(pod)];
  const hasUserNamespace = pod?.spec.hostUsers === false;
  kubelet.observe("kubelet_run_podsandbox_duration_seconds", secondsOf(ended), handler);
  kubelet.add("kubelet_started_pods_total");
  if (hasUserNamespace) kubelet.add("kubelet_started_user_namespaced_pods_total");
  if (result.ok) return;
  kubelet.add("kubelet_run_podsandbox_errors_total", handler);
  kubelet.add("kubelet_started_pods_errors_total");
  if (hasUserNamespace) kubelet.add("kubelet_started_user_namespaced_pods_errors_total");
}

function recordPull(recorder: Recorder, image: string, ended: EndedAction): void {
  if (ended.result.ok) return void recordPullDuration(recorder, image, secondsOf(ended));
  const container = imageUseOf(ended.pod, image)?.name;
  if (container !== undefined) recordStart(recorder, container, ended);
}

async function recordPullDuration(
  { kubelet, imageSizeBytes }: Recorder,
  image: string,
  seconds: number,
): Promise<void> {
  const size = (await imageSizeBytes(image)) ?? 0;
  kubelet.observe("kubelet_image_pull_duration_seconds", seconds, [imageSizeBucket(size)]);
}

function recordStart({ kubelet }: Recorder, container: string, { pod, result }: EndedAction): void {
  const type = containerTypeOf(pod, container);
  if (!result.ok) kubelet.add("kubelet_started_containers_errors_total", [result.reason, type]);
}

function recordVolume(
  { kubelet, claimedSource }: Recorder,
  operation: "mount" | "unmount",
  volume: string,
  ended: EndedAction,
): void {
  const { pod, result } = ended;
  const plugin = volumePluginName(pod, volume, claimedSource);
  const seconds = secondsOf(ended);
  const status = result.ok ? "success" : "fail-unknown";
  kubelet.observe("storage_operation_duration_seconds", seconds, ["false", `volume_${operation}`, status, plugin]);
  if (result.ok) kubelet.observe("volume_operation_total_seconds", seconds, [`overall_volume_${operation}`, plugin]);
  else kubelet.add("storage_operation_errors_total", [`volume_${operation}`, plugin]);
}

function recordCgroup({ kubelet }: Recorder, operation: string, ended: EndedAction): void {
  kubelet.observe("kubelet_cgroup_manager_duration_seconds", secondsOf(ended), [operation]);
}

const MEBIBYTE = 2 ** 20;
const GIBIBYTE = 2 ** 30;

/** The label of each image size, which counts images that are larger than its lower bound. */
const IMAGE_SIZES: readonly (readonly [aboveBytes: number, label: string])[] = [
  [100 * GIBIBYTE, "GT100GB"],
  [60 * GIBIBYTE, "60GB-100GB"],
  [40 * GIBIBYTE, "40GB-60GB"],
  [30 * GIBIBYTE, "30GB-40GB"],
  [20 * GIBIBYTE, "20GB-30GB"],
  [10 * GIBIBYTE, "10GB-20GB"],
  [5 * GIBIBYTE, "5GB-10GB"],
  [GIBIBYTE, "1GB-5GB"],
  [500 * MEBIBYTE, "500MB-1GB"],
  [100 * MEBIBYTE, "100MB-500MB"],
  [10 * MEBIBYTE, "10MB-100MB"],
  [0, "0-10MB"],
];

const imageSizeBucket = (bytes: number) => IMAGE_SIZES.find(([above]) => bytes > above)?.[1] ?? "N/A";
