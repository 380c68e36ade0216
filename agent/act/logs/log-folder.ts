import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import { podLogDir } from "../../translate/log-path.ts";

/** Undefined for a pod known only by its directory: without its name the path of its logs is unknown. */
export function logFolderOf({
  desired,
  observed: { uid, namespace, name },
}: {
  readonly desired: DesiredPod | undefined;
  readonly observed: ObservedPod;
}): string | undefined {
  if (desired !== undefined) return podLogDir(desired.pod);
  return name === "" ? undefined : podLogDir({ metadata: { namespace, name, uid } });
}
