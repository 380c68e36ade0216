import { kubeletConfigApiVersion, kubeletConfigKind } from "../../../proto/kubelet/config.ts";
import { YamlError } from "../../../proto/yaml/error.ts";
import { emptyMap, type MapNode, showNode } from "../../../proto/yaml/value-node.ts";
import { checkShape } from "../fields/decode-fields.ts";
import { describeCause, type Problem } from "../problem.ts";

/**
 * What reading the configuration needs of the machine; `host`'s Files with the root `/` have it. Paths are absolute.
 * Both reject with an error whose message says why (not permitted, a loop of links).
 */
export interface ConfigFiles {
  /**
   * The text of a regular file, links followed. Rejects, without ever blocking, on whatever is not a regular file (a FIFO,
   * a device, a directory) and on a file longer than `maxBytes`.
   */
  read(path: string, maxBytes: number): Promise<string>;
  /** The entries of a folder, links not followed; undefined where there is no such folder. */
  list(path: string): Promise<readonly { readonly name: string; readonly kind: string }[] | undefined>;
}

/** One file, held against the schema; what is wrong has been taken out of the map and put among the problems. */
export interface Source {
  readonly node: MapNode;
  readonly problems: readonly Problem[];
}

const fileType = { apiVersion: kubeletConfigApiVersion, kind: kubeletConfigKind };
const longestFile = 1024 * 1024;

/** Reads a configuration file. `isDropIn`: null removes what earlier files say, instead of saying nothing. */
export async function readSource(file: string, isDropIn: boolean, files: ConfigFiles): Promise<Source> {
  const text = await readText(file, files);
  if (typeof text !== "string") return text;
  // Loaded only here: an agent that runs by flags alone has no need of a YAML parser in its memory.
  const { parseYaml } = await import("../../../proto/yaml/parse.ts");
  try {
    const root = parseYaml(text, file);
    if (root === undefined) return broken(file, "is empty, must begin with apiVersion and kind");
    const shaped = checkShape(root, isDropIn);
    return checkType(file, shaped);
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    return { node: emptyMap(file), problems: error.problems.map((problem) => ({ ...problem, field: "" })) };
  }
}

async function readText(file: string, { read }: ConfigFiles): Promise<string | Source> {
  try {
    return await read(file, longestFile);
  } catch (error) {
    // A reason that names the file again would say it twice.
    return broken(file, `cannot be read: ${describeCause(error).replace(`${file} `, "it ")}`);
  }
}

/**
 * Every file says what it is, a drop-in too. It says so for itself alone: the two fields are taken out, so that no other
 * file can make them good.
 */
function checkType(file: string, { node, problems }: Source): Source {
  const wrong = Object.entries(fileType).flatMap(([field, expected]): readonly Problem[] => {
    const found = node.entries.get(field);
    const must = `must be ${JSON.stringify(expected)}`;
    if (found === undefined) return [{ where: file, field, message: `missing, ${must}` }];
    if (found.kind === "scalar" && found.value === expected) return [];
    return [{ where: found.where, field, message: `found ${showNode(found)}, ${must}` }];
  });
  const entries = new Map([...node.entries].filter(([field]) => !Object.hasOwn(fileType, field)));
  return { node: { ...node, entries }, problems: [...wrong, ...problems] };
}

function broken(file: string, message: string): Source {
  return { node: emptyMap(file), problems: [{ where: file, field: "", message }] };
}
