import { kubernetesVersion } from "../proto/kubernetes/version.ts";

/** What the node says of its kubelet; the build part of a version counts for nothing where versions are compared. */
export const kubeletVersion = `${kubernetesVersion}+berth`;
