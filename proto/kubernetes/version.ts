/** The release of Kubernetes whose API, flags and words these are; a test holds it against the document that they were made of. */
export const kubernetesVersion = "v1.36.3";
