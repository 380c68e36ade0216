import { FilesError } from "../../host/fs/files.ts";
import type { FileNode } from "./files.ts";

type Nodes = ReadonlyMap<string, FileNode>;

const MAX_SYMLINKS = 40;
const MAX_NAME_BYTES = 255;

/** What of a path below a folder is there, with symlinks followed inside the folder, and the names that are missing. */
interface Beneath {
  readonly found: string;
  readonly missing: readonly string[];
}

/** Resolves a path below a folder as openat2 does with RESOLVE_BENEATH. */
export function resolveBeneath(nodes: Nodes, root: string, path: string): Beneath {
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  if (nodes.get(root)?.kind !== "directory")
    throw new FilesError("ENOTDIR", root, `${root} is below something that is not a directory`);
  for (let count = names.length; count > 0; count--) {
    const found = findBeneath(nodes, root, names.slice(0, count), path);
    if (found !== undefined) return { found, missing: names.slice(count) };
  }
  return { found: root, missing: names };
}

/** Undefined if it does not exist. */
function findBeneath(nodes: Nodes, root: string, names: readonly string[], path: string): string | undefined {
  const leaving = new FilesError(
    "EXDEV",
    root,
    `${path} leads out of ${root}, or goes by an absolute symlink, which is refused wherever it leads`,
  );
  const left = names.toReversed();
  const at: string[] = [];
  let links = 0;
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    const here = [root, ...at].join("/");
    if (nodes.get(here)?.kind === "file")
      throw new FilesError("ENOTDIR", here, `${here} is below something that is not a directory`);
    if (Buffer.byteLength(name) > MAX_NAME_BYTES)
      throw new FilesError("ENAMETOOLONG", here, `${here} has a name of more than ${MAX_NAME_BYTES} bytes`);
    if (name === "..") {
      if (at.pop() === undefined) throw leaving;
      continue;
    }
    const node = nodes.get(`${here}/${name}`);
    if (node === undefined) return undefined;
    if (node.kind !== "symlink") {
      at.push(name);
      continue;
    }
    if (++links > MAX_SYMLINKS) throw new FilesError("ELOOP", here, `${here} is a loop of symlinks`);
    if (node.target.startsWith("/")) throw leaving;
    left.push(
      ...node.target
        .split("/")
        .filter((each) => each !== "" && each !== ".")
        .toReversed(),
    );
  }
  return [root, ...at].join("/");
}
