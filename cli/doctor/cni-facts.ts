import type { Files } from "../../host/fs/files.ts";

/** The network configuration that the runtime uses: the first file of its folder, in the order of the names. */
export interface CniFacts {
  readonly confDir: string;
  readonly binDirs: readonly string[];
  /** Undefined if the folder has no configuration. */
  readonly file: string | undefined;
  /** Why the file is not a network configuration. */
  readonly problem?: string;
  readonly plugins: readonly string[];
  readonly missingPlugins: readonly string[];
}

/** Where the runtimes and the kubelet's documentation expect them. */
export const usualCni = { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"] } as const;

const MAX_FILE_BYTES = 1 << 20;
const EXECUTABLE = 0o111;

export async function readCniFacts(
  files: Pick<Files, "list" | "read" | "stat">,
  { confDir, binDirs }: { readonly confDir: string; readonly binDirs: readonly string[] },
): Promise<CniFacts> {
  const folders = { confDir, binDirs };
  const entries = (await files.list(confDir)) ?? [];
  const name = entries.find((entry) => /\.(conf|conflist|json)$/.test(entry.name))?.name;
  if (name === undefined) return { ...folders, file: undefined, plugins: [], missingPlugins: [] };
  const file = `${confDir}/${name}`;
  const plugins = pluginsOf(await files.read(file, MAX_FILE_BYTES));
  if (typeof plugins === "string") return { ...folders, file, problem: plugins, plugins: [], missingPlugins: [] };
  const found = await Promise.all(plugins.map((plugin) => isInstalled(files, binDirs, plugin)));
  return { ...folders, file, plugins, missingPlugins: plugins.filter((_, index) => !found[index]) };
}

/**
 * The programs that a configuration list or a single configuration starts, or why the text is neither.
 *
 * @internal
 */
export function pluginsOf(text: string): readonly string[] | string {
  const parsed = parse(text);
  if (parsed === undefined) return "it is not JSON";
  const chain = Array.isArray(parsed.plugins) ? parsed.plugins : [parsed];
  const types = chain.flatMap((plugin: Plugin | null) => [plugin?.type, plugin?.ipam?.type]);
  const names = types.filter((type) => typeof type === "string" && type !== "").map(String);
  return names.length === 0 ? "it names no plugin" : [...new Set(names)];
}

interface Plugin {
  readonly type?: unknown;
  readonly ipam?: { readonly type?: unknown };
  readonly plugins?: unknown;
}

function parse(text: string): Plugin | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null ? (parsed as Plugin) : undefined;
  } catch {
    // The caller reports it; the text of the error may quote the file.
    return undefined;
  }
}

async function isInstalled(files: Pick<Files, "stat">, folders: readonly string[], name: string): Promise<boolean> {
  for (const folder of folders) {
    const found = await files.stat(`${folder}/${name}`);
    if (found?.kind === "file" && (found.mode & EXECUTABLE) !== 0) return true;
  }
  return false;
}
