import { binariesOf } from "../../cni/conf.ts";
import { readConfDir } from "../../cni/conf-dir.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";

/** The network configuration that the runtime uses: the first file of its folder, in the order of the names. */
export interface CniFacts {
  readonly confDir: string;
  readonly binDirs: readonly string[];
  /** Undefined if the folder has no configuration. */
  readonly file: string | undefined;
  /** Why the file, which it names, is not a network configuration. */
  readonly problem?: string;
  readonly plugins: readonly string[];
  readonly missingPlugins: readonly string[];
}

/** Where the runtimes and the kubelet's documentation expect them. */
export const usualCni = { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"] } as const;

const EXECUTABLE = 0o111;

/** Rejects with `FilesError` if the folder or the file cannot be read, such as without being root. */
export async function readCniFacts(
  files: Pick<Files, "list" | "read" | "stat">,
  { confDir, binDirs }: { readonly confDir: string; readonly binDirs: readonly string[] },
): Promise<CniFacts> {
  const nothing = { confDir, binDirs, plugins: [], missingPlugins: [] };
  const [first] = await readConfDir(files, confDir);
  if (first === undefined) return { ...nothing, file: undefined };
  if ("problem" in first) {
    const { cause, message } = first.problem;
    if (cause instanceof FilesError && cause.code === "EACCES") throw cause;
    return { ...nothing, file: first.file, problem: message };
  }
  const plugins = binariesOf(first.conf);
  const found = await Promise.all(plugins.map((plugin) => isInstalled(files, binDirs, plugin)));
  const missingPlugins = plugins.filter((_, index) => !found[index]);
  return { confDir, binDirs, file: first.file, plugins, missingPlugins };
}

async function isInstalled(files: Pick<Files, "stat">, folders: readonly string[], name: string): Promise<boolean> {
  for (const folder of folders) {
    const found = await files.stat(`${folder}/${name}`);
    if (found?.kind === "file" && (found.mode & EXECUTABLE) !== 0) return true;
  }
  return false;
}
