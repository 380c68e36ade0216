import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { warning } from "../../decide/events/pod-event.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import { containersDir } from "../../translate/volumes/paths.ts";
import { ensureOwnership } from "./ownership.ts";
import { reportOwnershipProgress } from "./ownership-progress.ts";
import type { PathCalls } from "./path-calls.ts";
import type { VolumeDeps } from "./volume-deps.ts";

/**
 * Gives a volume that is mounted writable to the pod's fsGroup, if it has one. `folder` is relative to the root
 * directory. Reports a change that lasts. A file that cannot be changed is logged, and the pod starts, as with the
 * kubelet: its program reports what it cannot read. Throws `FilesError`, or the signal's reason.
 */
export async function applyFsGroup(
  { disk, clock, log, recordEvent }: VolumeDeps,
  pod: Pod,
  calls: PathCalls,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  const { fsGroup: group, fsGroupChangePolicy: policy } = pod.spec.securityContext ?? {};
  if (group === undefined || (await hasHadContainer(disk, pod.metadata.uid ?? ""))) return;
  const progress = reportOwnershipProgress(clock, folder, (event) => recordEvent(pod, event));
  const ownership = { group, isReadOnly: false, policy };
  const result = await ensureOwnership(calls, disk.root.path(folder), ownership, signal, progress.onProgress).finally(
    progress.end,
  );
  if (result.outcome === "unchanged" || result.failure === undefined) return;
  const fields = { pod: fullNameOf(pod), uid: pod.metadata.uid };
  log.warn(fields, `a file of a volume cannot be given to the pod's fsGroup ${group}: ${result.failure.message}`);
}

/**
 * A pod gets its first container when all of its volumes have their owner. The programs may have restricted their files
 * since, so an agent that sets the volume up again leaves them alone, as the kubelet leaves what is mounted.
 */
export async function hasHadContainer({ root }: VolumeDeps["disk"], uid: string): Promise<boolean> {
  return ((await root.list(containersDir(uid))) ?? []).length > 0;
}

/**
 * Reports, in the kubelet's words, that other pods have mounted a volume which belongs to another group than the pod's
 * fsGroup: its files stay as they are. `path` is that of the node, `name` the persistent volume's.
 */
export async function reportForeignGroup(
  { recordEvent }: Pick<VolumeDeps, "recordEvent">,
  pod: Pod,
  calls: PathCalls,
  { path, name }: { readonly path: string; readonly name: string },
): Promise<void> {
  const requested = pod.spec.securityContext?.fsGroup;
  const found = requested === undefined ? undefined : await calls.stat(path);
  if (found === undefined || found.group === requested) return;
  const message = `The requested fsGroup is ${requested}, but the volume ${name} has GID ${found.group}. The volume may not be shareable.`;
  recordEvent(pod, warning("AlreadyMountedVolume", message));
}
