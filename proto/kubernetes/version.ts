/** The Kubernetes release whose API, flags and messages Berth implements; a test compares it with openapi.json. */
export const kubernetesVersion = "v1.36.3";

/** `kubeletVersion` of the node status. Version comparisons ignore the build metadata after the plus sign. */
export const kubeletVersion = `${kubernetesVersion}+berth`;
