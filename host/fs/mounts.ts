import { readFile, realpath } from "node:fs/promises";

/** One line of /proc/self/mountinfo (proc_pid_mountinfo(5)). */
export interface Mount {
  readonly mountPoint: string;
  readonly fsType: string;
  readonly source: string;
  readonly options: readonly string[];
}

export interface Mounts {
  list(): Promise<readonly Mount[]>;
  /**
   * The mount points at a path and below it, as real paths: they must be unmounted before the folder may be removed.
   * The path may contain symlinks; empty when it does not exist.
   */
  mountPointsBelow(path: string): Promise<readonly string[]>;
}

export function createMounts(): Mounts {
  const list = async () => parseMountinfo(await readFile("/proc/self/mountinfo", "utf8"));
  return {
    list,
    async mountPointsBelow(path) {
      const real = await realPathIfPresent(path);
      if (real === undefined) return [];
      const prefix = real === "/" ? "/" : `${real}/`;
      return (await list())
        .map(({ mountPoint }) => mountPoint)
        .filter((mountPoint) => mountPoint === real || mountPoint.startsWith(prefix));
    },
  };
}

/** The kernel lists mounts by their real paths. */
async function realPathIfPresent(path: string): Promise<string | undefined> {
  try {
    return await realpath(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Parses lines such as `36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw`; skips malformed ones.
 */
export function parseMountinfo(text: string): readonly Mount[] {
  return text.split("\n").flatMap((line) => {
    // The first separator ends the optional fields; the source may be named `-`, too.
    const end = line.indexOf(" - ");
    const [, , , , mountPoint, options] = line.slice(0, Math.max(0, end)).split(" ");
    const [fsType, source] = line.slice(end + " - ".length).split(" ");
    if (mountPoint === undefined || options === undefined || fsType === undefined || source === undefined) return [];
    return [
      { mountPoint: unescapeOctal(mountPoint), fsType, source: unescapeOctal(source), options: options.split(",") },
    ];
  });
}

/** The kernel writes space, tab, newline and backslash as `\040` and so on. */
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
