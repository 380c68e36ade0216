import { fitsSocketPath, MAX_SOCKET_PATH_BYTES } from "../proto/socket-path.ts";
import { CriError } from "./error.ts";

/**
 * The socket path of an endpoint such as `unix:///run/containerd/containerd.sock`. Like the kubelet, it also accepts an
 * absolute path. Throws INVALID_ARGUMENT for anything else.
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
      `container runtime endpoint ${JSON.stringify(endpoint)} is longer than the ${MAX_SOCKET_PATH_BYTES} bytes a socket's path may have`,
    );
  return path;
}
