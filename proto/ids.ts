/** `metadata.uid` of a pod. The agent creates those of static pods; they are not always UUIDs. */
export type PodUid = string & { readonly brand: "PodUid" };

/** The id of a pod sandbox in the runtime. */
export type SandboxId = string & { readonly brand: "SandboxId" };

/** The id of a container in the runtime, without the prefix `containerd://` of the API. */
export type ContainerId = string & { readonly brand: "ContainerId" };

/** The runtime's reference to a pulled image: a digest reference or an image id. */
export type ImageRef = string & { readonly brand: "ImageRef" };
