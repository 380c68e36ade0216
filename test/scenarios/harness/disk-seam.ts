import { join } from "node:path/posix";
import type { NodeDirs } from "../../../agent/act/volumes/pod-dirs.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Mounts } from "../../../host/fs/mounts.ts";
import type { NetworkFiles } from "../../../host/fs/network-files.ts";
import type { NetworkMount, NetworkMounts } from "../../../host/fs/network-mounts.ts";
import type { FakeDisk } from "../../fakes/files.ts";
import type { FakeMounts } from "../../fakes/mounts.ts";
import type { FakeNetworkFiles } from "../../fakes/network-files.ts";
import type { FakeNetworkMounts } from "../../fakes/network-mounts.ts";
import type { VerbsOf } from "./adapter-verbs.ts";
import type { AgentLifetime } from "./deaths.ts";

export const filesVerbs = {
  path: "computes",
  read: "reads",
  readEnd: "reads",
  readBeneath: "reads",
  open: "reads",
  gzip: "mutates",
  makeFile: "mutates",
  makeEmptyFile: "mutates",
  write: "mutates",
  writeWithoutSync: "mutates",
  stat: "reads",
  list: "reads",
  makeFolder: "mutates",
  rename: "mutates",
  link: "mutates",
  readLink: "reads",
  realPath: "reads",
  changeGroup: "mutates",
  remove: "mutates",
  space: "reads",
  usage: "reads",
  watch: "follows",
} as const satisfies VerbsOf<Files>;

const mountsVerbs = {
  list: "reads",
  mountPointsBelow: "reads",
  mountsAt: "reads",
  mountTmpfs: "mutates",
  mountHugePages: "mutates",
  bind: "mutates",
  bindBeneath: "mutates",
  unmount: "mutates",
  isShared: "reads",
  makeShared: "mutates",
} as const satisfies VerbsOf<Mounts>;

const networkMountsVerbs = {
  mount: "mutates",
  unmount: "mutates",
} as const satisfies VerbsOf<NetworkMounts>;

const networkFilesVerbs = {
  stat: "reads",
  realPath: "reads",
  makeFolder: "mutates",
  makeEmptyFile: "mutates",
  changeGroup: "mutates",
  bind: "mutates",
  bindBeneath: "mutates",
  unmount: "mutates",
} as const satisfies VerbsOf<NetworkFiles>;

interface DiskSeam {
  readonly networkMounts: NetworkMounts;
  readonly networkFiles: NetworkFiles;
  readonly disk: NodeDirs;
  readonly mounts: Mounts;
}

interface FakeFileSystems {
  readonly mounts: FakeMounts;
  readonly networkMounts: FakeNetworkMounts;
  readonly networkFiles: FakeNetworkFiles;
}

/** The file systems of one agent, and the mounts below them. */
export function diskSeam(
  disk: FakeDisk,
  { mounts, networkMounts, networkFiles }: FakeFileSystems,
  lifetime: AgentLifetime,
): DiskSeam {
  const filesBelow = (root: string): Files => {
    const subjectOf = (_: string, [path]: readonly unknown[]) => join(root, String(path));
    return lifetime.wrap({ name: "disk", adapter: disk.at(root), verbs: filesVerbs, subjectOf });
  };
  return {
    disk: { root: filesBelow("/root"), logs: filesBelow("/logs"), machine: filesBelow("/") },
    mounts: lifetime.wrap<Mounts>({ name: "mounts", adapter: mounts, verbs: mountsVerbs, subjectOf: mountSubject }),
    networkMounts: lifetime.wrap<NetworkMounts>({
      name: "networkMounts",
      adapter: networkMounts,
      verbs: networkMountsVerbs,
      subjectOf: (verb, input) => (verb === "mount" ? (input[0] as NetworkMount).target : mountSubject(verb, input)),
    }),
    networkFiles: lifetime.wrap<NetworkFiles>({
      name: "networkFiles",
      adapter: networkFiles,
      verbs: networkFilesVerbs,
      subjectOf: mountSubject,
    }),
  };
}

/** The path at which something is mounted: the target of a bind mount is its second argument, or its third. */
function mountSubject(verb: string, [path, second, third]: readonly unknown[]): string {
  if (verb === "bindBeneath") return String(third);
  return String(verb === "bind" ? second : path);
}
