import { allContainerStatuses } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";

/** The settings of one cgroup: the values of its files by name, and of a slice the properties by theirs. */
export type CgroupFiles = Readonly<Record<string, string>>;

/** Cgroups by path below the root, or by the names of their pods and containers. */
export type CgroupTree = ReadonlyMap<string, CgroupFiles>;

/** Files that can be written and hold no setting of their own, or cannot be read. */
const noSettings = [
  "cgroup.procs",
  "cgroup.threads",
  "cgroup.kill",
  "cpu.weight.nice",
  "memory.reclaim",
  "*.peak",
  "*.pressure",
];

/**
 * The properties of a slice that systemd writes to its files again when it reloads its units, and those of who may
 * change what is below it.
 */
const sliceProperties = [
  "CPUWeight",
  "CPUQuotaPerSecUSec",
  "CPUQuotaPeriodUSec",
  "AllowedCPUs",
  "MemoryMin",
  "MemoryLow",
  "MemoryHigh",
  "MemoryMax",
  "MemorySwapMax",
  "TasksMax",
  "Delegate",
  "DelegateControllers",
  "DefaultDependencies",
  "Slice",
];

/**
 * A shell script that prints every setting of the cgroups below kubepods, with either driver: the path of each file, and
 * `PATH:VALUE` of those that are not empty. Settings are the files that root may write, and the list of controllers. Of
 * systemd's slices it also prints the properties. A cgroup that goes away meanwhile is no error.
 */
export const printCgroups = `cd /sys/fs/cgroup
for root in kubepods kubepods.slice; do
  test -d $root || continue
  busybox find $root -type f '(' -perm -200 -o -name cgroup.controllers ')' ${noSettings.map((name) => `! -name '${name}'`).join(" ")} \\
    -print -exec busybox grep -sH '' '{}' + || true
done
echo
test ! -d kubepods.slice || systemctl show --property=ControlGroup,${sliceProperties.join()} 'kubepods*.slice'
`;

/** Parses what `printCgroups` has printed, by the cgroups' paths. */
export function parseCgroups(text: string): CgroupTree {
  const [files = "", ...slices] = text.split("\n\n");
  const tree = new Map<string, Record<string, string>>();
  for (const line of files.split("\n").filter(Boolean)) {
    const [, cgroup = "", file = "", value] = /^(.*)\/([^/:]+)(?::(.*))?$/.exec(line) ?? [];
    const known = tree.get(cgroup) ?? {};
    tree.set(cgroup, known);
    // Of several lines, such as those of devices, all count.
    known[file] = [known[file] ?? "", value ?? ""].filter(Boolean).join("\n");
  }
  for (const slice of slices) {
    const pairs = slice.split("\n").map((line) => /^(\w+)=(.*)$/.exec(line) ?? []);
    const { ControlGroup: path = "", ...properties } = Object.fromEntries(
      pairs.flatMap(([, name, value]) => (name === undefined ? [] : [[name, value ?? ""]])),
    ) as Record<string, string>;
    const known = tree.get(path.slice(1));
    if (known !== undefined) Object.assign(known, properties);
  }
  return new Map([...tree].map(([path, known]) => [path, sorted(known)]));
}

const sorted = (files: CgroupFiles): CgroupFiles =>
  Object.fromEntries(Object.entries(files).toSorted(([a], [b]) => (a < b ? -1 : 1)));

/**
 * The same cgroups by names that are alike with both drivers and on every node: `kubepods`, `kubepods/burstable`,
 * `kubepods/burstable/POD`, `kubepods/burstable/POD/CONTAINER`, and `sandbox` for the sandbox of a pod. A cgroup that
 * belongs to none of `pods` keeps its path. Sorted by name.
 */
export function nameCgroups(tree: CgroupTree, pods: readonly Pod[]): CgroupTree {
  const podNames = new Map(pods.map(({ metadata }) => [metadata.uid ?? "", metadata.name ?? ""]));
  const containerNames = new Map(
    pods.flatMap(({ status }) =>
      allContainerStatuses(status).map(({ containerID = "", name }) => [containerID.replace(/^.*:\/\//, ""), name]),
    ),
  );
  const nameOf = (path: string) => {
    const named = path.split("/").map((part) => nameOfPart(part, podNames, containerNames));
    return named.includes(undefined) ? path : named.join("/");
  };
  return new Map(
    [...tree].map(([path, files]) => [nameOf(path), files] as const).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
}

/** The pod that a cgroup belongs to, by the names of `nameCgroups`; undefined for the levels above the pods. */
export function podOfCgroup(cgroup: string): string | undefined {
  const [, second, third] = cgroup.split("/");
  return second === "burstable" || second === "besteffort" ? third : second;
}

/** Undefined for a part that belongs to no known pod. */
function nameOfPart(
  part: string,
  podNames: ReadonlyMap<string, string>,
  containerNames: ReadonlyMap<string, string>,
): string | undefined {
  // With the systemd driver: kubepods-burstable-pod0ab1_….slice and cri-containerd-ID.scope.
  const bare = part.replace(/\.(slice|scope)$/, "").replace(/^cri-containerd-/, "");
  const [, uid] = /^(?:kubepods-)?(?:burstable-|besteffort-)?pod(.*)$/.exec(bare) ?? [];
  if (uid !== undefined) return podNames.get(uid.replaceAll("_", "-"));
  // The sandbox is the only container of a pod that its status does not name.
  if (/^[0-9a-f]{64}$/.test(bare)) return containerNames.get(bare) ?? "sandbox";
  const [, level] = /^(?:kubepods-)?(kubepods|burstable|besteffort)$/.exec(bare) ?? [];
  return level;
}
