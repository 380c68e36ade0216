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
   * The mount points at a path and below it, as real paths: what must be gone before a folder may be removed. The path may
   * lead through symlinks; none when it is absent.
   */
  below(path: string): Promise<readonly string[]>;
}

export function createMounts(): Mounts {
  const list = async () => parseMountinfo(await readFile("/proc/self/mountinfo", "utf8"));
  return {
    list,
    async below(path) {
      const real = await realPath(path);
      if (real === undefined) return [];
      const inside = real === "/" ? "/" : `${real}/`;
      return (await list())
        .map(({ mountPoint }) => mountPoint)
        .filter((mountPoint) => mountPoint === real || mountPoint.startsWith(inside));
    },
  };
}

/** The kernel lists mounts by their real paths, whatever links lead to them. */
async function realPath(path: string): Promise<string | undefined> {
  try {
    return await realpath(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** `36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`; lines that do not fit are left out. */
export function parseMountinfo(text: string): readonly Mount[] {
  return text.split("\n").flatMap((line) => {
    // The first one ends the optional fields: a source may be called `-` too.
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
