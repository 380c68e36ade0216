import type { Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { explainShortage } from "./shortage.ts";

/**
 * What the message about a pod means, where the kubelet's or the runtime's words say little to a reader who does not know
 * them. Undefined if they are clear.
 */
export function explainMessage(pod: Pick<Pod, "spec">, message: string): string | undefined {
  return explainShortage(pod, message) ?? explainRelativePath(pod, message);
}

/**
 * The API accepts a relative hostPath, and the kubelet passes it on. The OCI runtime then looks for it below the folder of the
 * container, where it is not, and names the joined path.
 */
function explainRelativePath({ spec: { volumes = [] } }: Pick<Pod, "spec">, message: string): string | undefined {
  const isNamed = (path: string) => !path.startsWith("/") && message.includes(path.replace(/^(\.\/+)+/, ""));
  const volume = volumes.find(({ hostPath }) => hostPath !== undefined && isNamed(hostPath.path));
  if (volume === undefined) return undefined;
  const path = JSON.stringify(volume.hostPath?.path);
  return `the hostPath ${path} of volume ${volume.name} is relative, so the runtime does not find it: write an absolute path`;
}
