import type { Clock } from "../../../host/clock.ts";
import { PODS_DIR } from "../../../proto/kubelet/pod-dirs.ts";
import { type PodEvent, warning } from "../../decide/events/pod-event.ts";

const FIRST_REPORT_MS = 30_000;
const REPORT_EVERY_MS = 60_000;
const ADVICE =
  "consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods";

export interface OwnershipProgress {
  /** Takes the number of files that were changed so far. */
  onProgress(count: number): void;
  end(): void;
}

/**
 * Reports a change of a volume's owner that lasts, as the kubelet does (pkg/volume/volume_linux.go): after 30 seconds,
 * then every minute until `end`. `folder` is that of the volume, relative to the root directory.
 */
export function reportOwnershipProgress(
  clock: Clock,
  folder: string,
  recordEvent: (event: PodEvent) => void,
): OwnershipProgress {
  const subject = `Setting volume ownership for ${folder.replace(`${PODS_DIR}/`, "")}`;
  let files = 0;
  const record = (message: string) => recordEvent(warning("VolumePermissionChangeInProgress", message));
  const repeat = (): (() => void) =>
    clock.wakeAt(clock.now() + REPORT_EVERY_MS, () => {
      record(`${subject}, processed ${files} files.`);
      cancel = repeat();
    });
  let cancel = clock.wakeAt(clock.now() + FIRST_REPORT_MS, () => {
    record(`${subject} is taking longer than expected, ${ADVICE}`);
    cancel = repeat();
  });
  return {
    onProgress(count) {
      files = count;
    },
    end: () => cancel(),
  };
}
