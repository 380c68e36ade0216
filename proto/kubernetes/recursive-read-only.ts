import type { VolumeMount } from "./gen/types.ts";

/** Whether a mount is recursively read-only, or why it cannot be, in the kubelet's words. */
type RecursiveReadOnly = { readonly isRecursive: boolean } | { readonly problem: string };

/** Resolves `recursiveReadOnly` of a mount. `isSupported`: by the runtime handler of the pod. */
export function resolveRecursiveReadOnly(
  { name, readOnly, recursiveReadOnly: mode = "Disabled", mountPropagation = "None" }: VolumeMount,
  isSupported: boolean,
): RecursiveReadOnly {
  if (mode === "Disabled") return { isRecursive: false };
  const request = `volume "${name}" requested recursive read-only mode`;
  if (readOnly !== true) return { problem: `${request}, but it is not read-only` };
  if (mountPropagation !== "None")
    return { problem: `${request}, but it is not compatible with propagation "${mountPropagation}"` };
  if (mode === "IfPossible") return { isRecursive: isSupported };
  // A newer API server may send a value that is unknown here.
  if (mode !== "Enabled") return { problem: `unknown recursive read-only mode "${mode}"` };
  return isSupported ? { isRecursive: true } : { problem: `${request}, but it is not supported by the runtime` };
}
