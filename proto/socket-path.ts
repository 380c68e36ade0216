import { utf8Length } from "./utf8.ts";

/** The kernel's `sun_path` has 108 bytes including the final zero. */
export const MAX_SOCKET_PATH_BYTES = 107;

/** Whether a unix socket can have this path. */
export function fitsSocketPath(path: string): boolean {
  return utf8Length(path) <= MAX_SOCKET_PATH_BYTES;
}
