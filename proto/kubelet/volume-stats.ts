/*
 * The figures of volumes, named as in the kubelet's summary API (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
 */

/**
 * How the kubelet measures volumes of a kind. `du` adds up the files of a directory on a file system that it shares
 * (pkg/volume/metrics_du.go). `statfs` asks the volume's own file system (metrics_statfs.go), whose server may hang.
 */
export type VolumeMeasurement = "du" | "statfs";

/** A volume of a pod that is set up, and how it is measured. */
export interface MeasurableVolume {
  /** As the pod calls it. */
  readonly name: string;
  /** Its source in the pod: `emptyDir`, `persistentVolumeClaim`. */
  readonly kind: string;
  /** The claim of a persistent volume. */
  readonly claim?: string;
  /** Relative to the agent's root directory. Undefined where the kubelet measures nothing: a hostPath. */
  readonly folder?: string;
  readonly measurement?: VolumeMeasurement;
  /** The `sizeLimit` of an emptyDir, or what limits it in memory. */
  readonly limitBytes?: number;
}

/** Bytes, and numbers of inodes. */
export interface FsStats {
  readonly usedBytes: number;
  readonly availableBytes: number;
  readonly capacityBytes: number;
  readonly inodes: number;
  readonly inodesFree: number;
  readonly inodesUsed: number;
}

/** What is known of a volume now. Without figures: it is not measured, or `problem` says why they are missing. */
export interface VolumeStats extends Partial<FsStats> {
  readonly name: string;
  readonly kind: string;
  readonly claim?: string;
  readonly limitBytes?: number;
  readonly problem?: string;
}
