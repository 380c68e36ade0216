import { fitsSocketPath, longestSocketPathBytes } from "../proto/socket-path.ts";
import { CriError } from "./error.ts";

/**
 * The path of the runtime's socket from an endpoint such as `unix:///run/containerd/containerd.sock`; a bare absolute
 * path is taken too, as the kubelet does. Throws INVALID_ARGUMENT for anything else.
 */
export function socketPathOf(endpoint: string): string {
  const path = endpoint.startsWith("unix://") ? endpoint.slice("unix://".length) : endpoint;
  if (!path.startsWith("/"))
    throw new CriError(
      "INVALID_ARGUMENT",
      "Connect",
      `container runtime endpoint ${JSON.stringify(endpoint)} is not "unix://" followed by an absolute path`,
    );
  if (!fitsSocketPath(path))
    throw new CriError(
      "INVALID_ARGUMENT",
      "Connect",
      `container runtime endpoint ${JSON.stringify(endpoint)} is longer than the ${longestSocketPathBytes} bytes a socket's path may have`,
    );
  return path;
}
