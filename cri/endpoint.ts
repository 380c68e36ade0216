import { shellWord } from "../proto/shell-word.ts";
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

/** crictl and ctr find a runtime on this socket by themselves. */
const USUAL_SOCKET = "/run/containerd/containerd.sock";

/** The command with the endpoint of this runtime, if it is one of crictl or ctr and they would ask another runtime. */
export function withEndpoint(command: string, endpoint: string): string {
  const path = endpoint.replace(/^unix:\/\//, "");
  if (path === USUAL_SOCKET) return command;
  return command
    .replace(/^crictl /, () => `crictl --runtime-endpoint ${shellWord(`unix://${path}`)} `)
    .replace(/^ctr /, () => `ctr --address ${shellWord(path)} `);
}
