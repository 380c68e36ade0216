import type { Runtime } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import type { DiskUsage } from "../../../host/fs/disk-usage.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import { formatLogDir } from "../../../proto/kubelet/pod-dirs.ts";
import type {
  DiskUsageReading,
  FileSystemReading,
  NodeReading,
  PlacedUsage,
  PodReading,
} from "../../decide/stats/readings.ts";
import { RUNTIME_DEADLINE_MS } from "./container-index.ts";
import { layerUsage, writableLayerOf } from "./from-runtime.ts";

export interface DiskUsagesDeps {
  readonly runtime: Pick<Runtime, "imageFsInfo" | "listContainerStats">;
  /** The whole machine. */
  readonly files: Pick<Files, "space">;
  readonly rootDir: string;
  readonly podLogsDir: string;
  /** What the files directly in a folder take; undefined if it does not exist. */
  readonly usageOfFiles: (folder: string) => Promise<DiskUsage | undefined>;
  /** What one file takes; undefined if it does not exist. */
  readonly usageOfFile: (path: string) => Promise<DiskUsage | undefined>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Measures file systems, logs and writable layers. What cannot be measured is missing; no method rejects. */
export interface DiskUsages {
  /** Begins a pass, in which each file system is measured once. */
  begin(): DiskPass;
}

export interface DiskPass {
  node(): Promise<Pick<NodeReading, "fs" | "imageFs" | "containerFs">>;
  /** The pods with their logs, writable layers and other files. */
  withFiles(pods: readonly PodReading[]): Promise<readonly PodReading[]>;
}

export function createDiskUsages(deps: DiskUsagesDeps): DiskUsages {
  const { runtime, files, rootDir, clock, log } = deps;
  const options = { deadlineMs: RUNTIME_DEADLINE_MS };

  async function ifMeasured<T>(what: string, measure: () => Promise<T>): Promise<T | undefined> {
    try {
      return await measure();
    } catch (error) {
      log.debug({ err: error }, `${what} cannot be measured`);
      return undefined;
    }
  }

  return {
    begin() {
      const spaces = new Map<string, Promise<(FileSystemReading & { readonly usedBytes: number }) | undefined>>();
      const spaceOf = (path: string) => {
        const earlier = spaces.get(path);
        const space =
          earlier ?? ifMeasured(`the file system of ${path}`, async () => toReading(await files.space(path)));
        spaces.set(path, space);
        return space;
      };
      const toReading = (space: Awaited<ReturnType<Files["space"]>>) => ({
        atMs: clock.now(),
        capacityBytes: space.totalBytes,
        availableBytes: space.freeBytes,
        usedBytes: space.usedBytes,
        inodes: space.totalInodes,
        inodesFree: space.freeInodes,
      });
      const place = async (found: ReturnType<typeof layerUsage>): Promise<PlacedUsage | undefined> =>
        found && {
          usage: found.usage,
          fileSystem: found.mountPoint === undefined ? undefined : await spaceOf(found.mountPoint),
        };
      return {
        async node() {
          const [fs, info] = await Promise.all([
            spaceOf(rootDir),
            ifMeasured("the file system of images", () => runtime.imageFsInfo(options)),
          ]);
          const [image, container] = [info?.imageFilesystems[0], info?.containerFilesystems[0]];
          const imageFs = await place(layerUsage(image, clock.now()));
          // Runtimes that do not separate them report one of both.
          const containerFs = container === undefined ? imageFs : await place(layerUsage(container, clock.now()));
          return { fs, imageFs, containerFs };
        },
        async withFiles(pods) {
          const stats = await ifMeasured("the writable layers", () => runtime.listContainerStats({}, options));
          const layers = new Map((stats ?? []).map((each) => [each.attributes?.id, each]));
          return await Promise.all(
            pods.map(async (pod) => ({
              ...pod,
              containers: await Promise.all(
                pod.containers.map(async (container) => ({
                  ...container,
                  logs: await ifMeasured("the logs of a container", () => logsOf(deps, pod, container.name)),
                  rootfs: await place(
                    writableLayerOf(layers.get(container.id) ?? { writableLayer: undefined }, clock.now()),
                  ),
                })),
              ),
              otherFiles: await ifMeasured("the files of a pod", () => otherFilesOf(deps, pod)),
            })),
          );
        },
      };
    },
  };
}

const logDirOf = ({ podLogsDir }: DiskUsagesDeps, pod: PodReading) => `${podLogsDir}/${formatLogDir(pod)}`;

async function logsOf(deps: DiskUsagesDeps, pod: PodReading, container: string): Promise<DiskUsageReading | undefined> {
  const found = await deps.usageOfFiles(`${logDirOf(deps, pod)}/${container}`);
  return found && { atMs: deps.clock.now(), ...found };
}

/** Files that belong to no container: in the pod's log directory, and its `/etc/hosts`. */
async function otherFilesOf(deps: DiskUsagesDeps, pod: PodReading): Promise<DiskUsageReading> {
  const [logs, hosts] = await Promise.all([
    deps.usageOfFiles(logDirOf(deps, pod)),
    deps.usageOfFile(`${deps.rootDir}/pods/${pod.uid}/etc-hosts`),
  ]);
  return {
    atMs: deps.clock.now(),
    usedBytes: (logs?.usedBytes ?? 0) + (hosts?.usedBytes ?? 0),
    inodesUsed: (logs?.inodesUsed ?? 0) + (hosts?.inodesUsed ?? 0),
  };
}
