import { kubeletConfigApiVersion, kubeletConfigKind } from "../../../proto/kubelet/config.ts";
import { YamlError } from "../../../proto/yaml/error.ts";
import { describeNode, emptyMap, type MapNode } from "../../../proto/yaml/value-node.ts";
import { decodeFields } from "../fields/decode-fields.ts";
import { describeCause, type Problem } from "../problem.ts";
import { configFields } from "./config-fields.ts";

/**
 * The file access that reading the configuration needs; the `Files` of `host` with the root `/` provide it. Paths are
 * absolute. Both functions reject with an error whose message states the reason (permission denied, symlink loop).
 */
export interface ConfigFiles {
  /**
   * Reads a regular file, following symlinks. Never blocks: rejects for anything but a regular file (a FIFO, a device,
   * a directory) and for a file longer than `maxBytes`.
   */
  read(path: string, maxBytes: number): Promise<string>;
  /** Lists a directory without following symlinks; undefined when it does not exist. */
  list(path: string): Promise<readonly { readonly name: string; readonly kind: string }[] | undefined>;
}

/** One configuration file after decoding. Invalid parts are removed from the map and listed as problems. */
export interface ConfigFile {
  readonly node: MapNode;
  readonly problems: readonly Problem[];
}

const typeMeta = { apiVersion: kubeletConfigApiVersion, kind: kubeletConfigKind };
const MAX_FILE_BYTES = 1024 * 1024;

/**
 * Reads a configuration file. In a drop-in (`isDropIn`) null removes a field of earlier files; elsewhere it counts as
 * unset.
 */
export async function readConfigFile(file: string, isDropIn: boolean, files: ConfigFiles): Promise<ConfigFile> {
  const text = await readText(file, files);
  if (typeof text !== "string") return text;
  // Loaded on demand, so that an agent configured by flags alone does not hold the YAML parser in memory.
  const { parseYaml } = await import("../../../proto/yaml/parse.ts");
  try {
    const root = parseYaml(text, file);
    if (root === undefined) return invalidFile(file, "is empty, must begin with apiVersion and kind");
    const decoded = decodeFields(root, configFields, isDropIn);
    return checkTypeMeta(file, decoded);
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    return { node: emptyMap(file), problems: error.problems.map((problem) => ({ ...problem, field: "" })) };
  }
}

async function readText(file: string, { read }: ConfigFiles): Promise<string | ConfigFile> {
  try {
    return await read(file, MAX_FILE_BYTES);
  } catch (error) {
    // The cause may repeat the file name.
    return invalidFile(file, `cannot be read: ${describeCause(error).replace(`${file} `, "it ")}`);
  }
}

/**
 * Every file must state its apiVersion and kind, drop-ins included. Both fields are removed afterwards, so that no
 * other file can provide them.
 */
function checkTypeMeta(file: string, { node, problems }: ConfigFile): ConfigFile {
  const typeProblems = Object.entries(typeMeta).flatMap(([field, expected]): readonly Problem[] => {
    const found = node.entries.get(field);
    const expectation = `must be ${JSON.stringify(expected)}`;
    if (found === undefined) return [{ where: file, field, message: `missing, ${expectation}` }];
    if (found.kind === "scalar" && found.value === expected) return [];
    return [{ where: found.where, field, message: `found ${describeNode(found)}, ${expectation}` }];
  });
  const entries = new Map([...node.entries].filter(([field]) => !Object.hasOwn(typeMeta, field)));
  return { node: { ...node, entries }, problems: [...typeProblems, ...problems] };
}

function invalidFile(file: string, message: string): ConfigFile {
  return { node: emptyMap(file), problems: [{ where: file, field: "", message }] };
}
