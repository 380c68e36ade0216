import type { VolumeStats } from "../../../proto/kubelet/volume-stats.ts";

/** The volumes of one pod in `berth pods --volumes -o json`. */
export interface PodVolumes {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly volumes: readonly VolumeStats[];
}

/** The JSON of `berth pods --volumes -o json`. */
export interface VolumeListing {
  readonly pods: readonly PodVolumes[];
}
