import { join } from "node:path/posix";
import type { NodeDirs } from "../../../agent/act/volumes/pod-dirs.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { FakeDisk } from "../../fakes/files.ts";
import type { VerbsOf } from "./adapter-verbs.ts";
import type { AgentLifetime } from "./deaths.ts";

const filesVerbs = {
  path: "computes",
  read: "reads",
  readEnd: "reads",
  readBeneath: "reads",
  makeFile: "mutates",
  write: "mutates",
  stat: "reads",
  list: "reads",
  makeFolder: "mutates",
  rename: "mutates",
  link: "mutates",
  readLink: "reads",
  remove: "mutates",
  space: "reads",
  watch: "follows",
} as const satisfies VerbsOf<Files>;

interface DiskSeam {
  readonly disk: NodeDirs;
  readonly mountsBelow: (path: string) => Promise<readonly string[]>;
}

/** The file systems of one agent; nothing is mounted below them. */
export function diskSeam(disk: FakeDisk, lifetime: AgentLifetime): DiskSeam {
  const filesBelow = (root: string): Files => {
    const subjectOf = (_: string, [path]: readonly unknown[]) => join(root, String(path));
    return lifetime.wrap({ name: "disk", adapter: disk.at(root), verbs: filesVerbs, subjectOf });
  };
  return {
    disk: { root: filesBelow("/root"), logs: filesBelow("/logs"), machine: filesBelow("/") },
    mountsBelow: async () => [],
  };
}
