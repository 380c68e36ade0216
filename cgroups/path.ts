import type { CgroupName } from "../proto/cgroup/cgroup-name.ts";
import type { CgroupDriver } from "../proto/kubelet/config.ts";
import { ownCgroupError } from "./error.ts";

/** Where cgroups are, and what the driver calls them. Every method refuses a hostile name with `ENAME`. */
export interface CgroupLayout {
  readonly driver: CgroupDriver;
  /** The folder at which cgroup v2 is mounted. */
  readonly root: string;
  /** The absolute path of a cgroup's folder. */
  path(name: CgroupName): string;
  /** The folders from the one below the root of cgroup v2 down to the cgroup; empty for that root. */
  folders(name: CgroupName): readonly string[];
  /** systemd's unit of each of those folders: slices, of which the last may be a scope. */
  units(name: CgroupName): readonly string[];
  /** The last element of the name of the cgroup in this folder directly below `name`. */
  elementOf(name: CgroupName, folder: string): string;
  /** `cgroup_parent` of CRI: the path with cgroupfs, the name of the slice with systemd. */
  criParent(name: CgroupName): string;
}

export interface CgroupLayoutOptions {
  /** Where cgroup v2 is mounted: `/sys/fs/cgroup`. */
  readonly root: string;
  /**
   * The kubelet's `cgroupRoot`: the cgroup above all of the agent's, as a cgroupfs path with either driver; empty or `/`
   * for the root.
   */
  readonly cgroupRoot: string;
  readonly driver: CgroupDriver;
}

const SLICE = ".slice";
const ROOT_SLICE = "-.slice";
/** Units of a container runtime below a pod's slice. They keep their names: no slice can be below them. */
const LEAF_UNIT = /\.(scope|service)$/;
/** NAME_MAX of the kernel, in bytes; systemd's units have the same limit. */
const MAX_NAME_BYTES = 255;

/**
 * The names of cgroups. With systemd an element's hyphens become underscores, since a hyphen separates levels there:
 * `["kubepods", "pod12-34"]` is `kubepods.slice/kubepods-pod12_34.slice`. Rule: the kubelet's CgroupName.ToSystemd, and
 * systemd.slice(5).
 */
export function createCgroupLayout({ root, cgroupRoot, driver }: CgroupLayoutOptions): CgroupLayout {
  const prefix = cgroupRoot.split("/").filter((element) => element !== "");
  const complete = (name: CgroupName): CgroupName => [...prefix, ...name].map((each) => checkedElement(each, driver));
  const units = (name: CgroupName) => unitsOf(complete(name));
  const foldersOf = driver === "systemd" ? units : complete;
  return {
    driver,
    root,
    path: (name) => [root, ...foldersOf(name)].join("/"),
    folders: (name) => foldersOf(name).map((_, index, all) => [root, ...all.slice(0, index + 1)].join("/")),
    units,
    elementOf: (name, folder) => (driver === "systemd" ? unescaped(units(name), folder) : folder),
    criParent: (name) => (driver === "systemd" ? (units(name).at(-1) ?? ROOT_SLICE) : `/${complete(name).join("/")}`),
  };
}

/**
 * The name of a cgroup below the root of cgroup v2, of which a setting has the path, such as `systemReservedCgroup`:
 * `/system.slice` is `["system"]` with systemd. Rule: the kubelet's ParseSystemdToCgroupName and ParseCgroupfsToCgroupName.
 */
export function parseCgroupPath(path: string, driver: CgroupDriver): CgroupName {
  const elements = path.split("/").filter((element) => element !== "");
  const last = elements.at(-1);
  if (driver === "cgroupfs" || last === undefined) return elements;
  if (LEAF_UNIT.test(last)) return [...parseCgroupPath(elements.slice(0, -1).join("/"), driver), last];
  const slice = last.endsWith(SLICE) ? last.slice(0, -SLICE.length) : last;
  return slice === "-" ? [] : slice.split("-").map((element) => element.replaceAll("_", "-"));
}

function unitsOf(elements: CgroupName): readonly string[] {
  const escaped = elements.map((element) => element.replaceAll("-", "_"));
  const names = elements.map((element, index) =>
    index > 0 && index === elements.length - 1 && LEAF_UNIT.test(element)
      ? element
      : `${escaped.slice(0, index + 1).join("-")}${SLICE}`,
  );
  for (const unit of names)
    if (Buffer.byteLength(unit) > MAX_NAME_BYTES)
      throw ownCgroupError("ENAME", unit, undefined, `cgroup ${unit}: systemd's names have at most 255 bytes`);
  return names;
}

function unescaped(parents: readonly string[], folder: string): string {
  const parent = parents.at(-1);
  const prefix = parent === undefined ? "" : `${parent.slice(0, -SLICE.length)}-`;
  if (!folder.endsWith(SLICE) || !folder.startsWith(prefix)) return folder;
  return folder.slice(prefix.length, -SLICE.length).replaceAll("_", "-");
}

/** What a folder of the kernel, or a unit of systemd, can be called. */
const ELEMENTS: Readonly<Record<CgroupDriver, RegExp>> = {
  cgroupfs: /^[^/\0\n]+$/,
  systemd: /^[A-Za-z0-9:_.@-]+$/,
};

function checkedElement(element: string, driver: CgroupDriver): string {
  const isValid = ELEMENTS[driver].test(element) && element !== "." && element !== "..";
  if (isValid && Buffer.byteLength(element) <= MAX_NAME_BYTES) return element;
  const shown = JSON.stringify(element);
  throw ownCgroupError("ENAME", shown, undefined, `a cgroup cannot be called ${shown} with the ${driver} driver`);
}
