import { volumePluginDirs } from "../../../proto/kubelet/pod-dirs.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { volumeNamed } from "../../../proto/kubernetes/volumes.ts";

/** The source of the persistent volume behind a volume of a pod, such as `nfs`; undefined without one. */
export type ClaimedSource = (pod: Pod, volume: string) => string | undefined;

/** How the kubelet names the plugin of a volume of the pod in its metrics: `kubernetes.io/configmap`. */
export function volumePluginName(pod: Pod | undefined, name: string, claimedSource: ClaimedSource): string {
  const volume = pod && volumeNamed(pod, name);
  if (pod === undefined || volume === undefined) return "N/A";
  const source = claimedSource(pod, name) ?? Object.keys(volume).find((key) => key !== "name") ?? "";
  const folder = Object.entries(volumePluginDirs).find(([key]) => key === source)?.[1];
  if (folder !== undefined) return folder.replace("~", "/");
  return `kubernetes.io/${source === "hostPath" ? "host-path" : source.toLowerCase()}`;
}
