/** `metadata.uid` of a pod. A static pod's is made by the agent; it is not always a UUID. */
export type PodUid = string & { readonly brand: "PodUid" };

/** The runtime's name for a pod sandbox. */
export type SandboxId = string & { readonly brand: "SandboxId" };

/** The runtime's name for a container, without the `containerd://` that Kubernetes puts before it. */
export type ContainerId = string & { readonly brand: "ContainerId" };

/** What the runtime calls an image it has pulled: a digest reference or an image id. */
export type ImageRef = string & { readonly brand: "ImageRef" };
