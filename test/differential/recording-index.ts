// Whether the recording of the kubelet is valid on this machine.
import { isDeepStrictEqual } from "node:util";

/**
 * What was recorded, and on which kind of machine: some rows show its cgroup version, CPUs and file system, or depend on
 * the programs of its bed.
 */
export interface RecordingIndex {
  /** The kubelet's version. */
  readonly kubelet: string;
  /** The hash of the bed: its objects, and the settings of its kubelets. */
  readonly bed: string;
  /** The hash of the code that makes the rows. */
  readonly rows: string;
  /** The versions of the Debian packages of the bed: the container runtime, and the programs in the images. */
  readonly packages: Readonly<Record<string, string>>;
  readonly cgroup: "v1" | "v2";
  readonly cpus: number;
  /** The type of the file system of temporary files, as of statfs(2). */
  readonly fileSystem: number;
}

/** With which kubelet Berth is compared here. */
export interface KubeletChoice {
  /** Whether two kubelets run beside Berth. Otherwise the recorded one is enough. */
  readonly isLive: boolean;
  /** In what this machine differs from the recorded one; some of it leaves the recording valid. */
  readonly differences: readonly string[];
}

/**
 * Chooses the kubelet. On another machine, or beside another release of a program, the recording says nothing: kubelets
 * run. Debian's own patches of a release change what a pod shows so rarely that the recording stays in use: a point
 * release of Debian must not make `npm test` run kubelets. `isLiveRun` for a run that is to find a stale recording.
 */
export function chooseKubelet(recorded: RecordingIndex, here: RecordingIndex, isLiveRun: boolean): KubeletChoice {
  const decisive = valuesOf(recorded, here, (index) => ({ ...index, packages: releasesOf(index) }));
  const differences = valuesOf(recorded, here, (index) => index);
  return { isLive: isLiveRun || decisive.length > 0, differences };
}

/** The packages that are not those of the recording, for a run that refuses a stale one. */
export function otherPackages(recorded: RecordingIndex, here: RecordingIndex): readonly string[] {
  return valuesOf(recorded, here, ({ packages }) => ({ packages }));
}

/** Each value in which two indexes differ, as `WHAT: here HERE, recorded RECORDED`. */
function valuesOf(
  recorded: RecordingIndex,
  here: RecordingIndex,
  select: (index: RecordingIndex) => Partial<RecordingIndex>,
): readonly string[] {
  const [before, now] = [recorded, here].map((index) => {
    const { packages = {}, ...rest } = select(index);
    return { ...rest, ...packages } as Readonly<Record<string, string | number>>;
  });
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(now ?? {})])];
  return names
    .filter((name) => !isDeepStrictEqual(before?.[name], now?.[name]))
    .map((name) => `${name}: here ${now?.[name] ?? "absent"}, recorded ${before?.[name] ?? "absent"}`);
}

/** The packages with their releases alone: `1.6.20~ds1-1+deb12u3` is revision `1+deb12u3` of the release `1.6.20~ds1`. */
const releasesOf = ({ packages }: RecordingIndex) =>
  Object.fromEntries(Object.entries(packages).map(([name, version]) => [name, version.replace(/-[^-]*$/, "")]));
