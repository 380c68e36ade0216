/** What the kernel's `sun_path` holds: 108 bytes with its closing zero. */
export const longestSocketPathBytes = 107;

/** True where a unix socket can have this path. */
export function fitsSocketPath(path: string): boolean {
  return new TextEncoder().encode(path).length <= longestSocketPathBytes;
}
