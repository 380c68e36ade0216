/** The kernel's `sun_path` has 108 bytes including the final zero. */
export const MAX_SOCKET_PATH_BYTES = 107;

/** Whether a unix socket can have this path. */
export function fitsSocketPath(path: string): boolean {
  return new TextEncoder().encode(path).length <= MAX_SOCKET_PATH_BYTES;
}
