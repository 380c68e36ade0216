import type { StatusResponse } from "../proto/cri/gen/api.ts";

/** The fields of an object whose content no standard defines. */
export type Fields = Readonly<Record<string, unknown>>;

/** The object in a field; without fields if there is none. */
export function fieldsAt(fields: Fields, name: string): Fields {
  const value = fields[name];
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

/**
 * The configuration of containerd's CRI plugin, which its verbose status contains; without fields for another runtime. It may
 * contain credentials: never log it.
 */
export function containerdConfig({ info }: StatusResponse): Fields {
  try {
    return fieldsAt({ parsed: JSON.parse(info["config"] ?? "{}") }, "parsed");
  } catch {
    // The runtime's own information may be anything; without it these facts are unknown.
    return {};
  }
}

/** The folders of network configurations and of plugins. */
export interface CniFolders {
  readonly confDir: string;
  /** The first one first. */
  readonly binDirs: readonly string[];
}

/** Where containerd looks for its network: `binDirs` since 2.1, `binDir` before; undefined for another runtime. */
export function containerdCni(config: Fields): CniFolders | undefined {
  const { confDir, binDirs, binDir } = fieldsAt(config, "cni");
  const listed = [binDirs, binDir].flat().filter((folder) => typeof folder === "string" && folder !== "");
  if (typeof confDir !== "string" || listed.length === 0) return undefined;
  return { confDir, binDirs: [...new Set(listed.map(String))] };
}

/** Who brings up `lo` of a pod's network namespace. */
export type LoopbackSetup =
  | { readonly by: "runtime" }
  /** The CNI plugin `loopback`; `isOptional` where the runtime could do it itself. */
  | { readonly by: "plugin"; readonly isOptional: boolean };

/**
 * containerd executes the plugin `loopback` for each pod, whatever the list of its folder has. Since 2.0 it can do without:
 * `use_internal_loopback`, which is false by default. Undefined for another runtime.
 */
export function containerdLoopback(config: Fields): LoopbackSetup | undefined {
  if (containerdCni(config) === undefined) return undefined;
  const { useInternalLoopback } = fieldsAt(config, "cni");
  return useInternalLoopback === true
    ? { by: "runtime" }
    : { by: "plugin", isOptional: useInternalLoopback !== undefined };
}
