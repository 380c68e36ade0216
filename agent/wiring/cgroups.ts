import { type AwaitedCgroups, awaitCgroups } from "../../cgroups/awaited-cgroups.ts";
import type { Cgroups } from "../../cgroups/cgroups.ts";
import type { PageSizes } from "../../cgroups/controller.ts";
import { createCgroupFiles } from "../../cgroups/files.ts";
import { createCgroups } from "../../cgroups/kernel-cgroups.ts";
import { createCgroupLayout, parseCgroupPath } from "../../cgroups/path.ts";
import { createSystemd, systemdAddresses } from "../../cgroups/systemd/systemd.ts";
import { reportedCgroupDriver } from "../../cri/cgroup-driver.ts";
import { CriError } from "../../cri/error.ts";
import type { RuntimeControl } from "../../cri/runtime-control.ts";
import { backoffMs } from "../../host/async/backoff.ts";
import { createSerialQueue } from "../../host/async/serial-queue.ts";
import { type Clock, sleepUnlessAborted } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import { kubepods } from "../../proto/cgroup/cgroup-name.ts";
import type { CgroupDriver } from "../../proto/kubelet/config.ts";
import { makeWithinUse, writeWithinUse } from "../act/performers/cgroup-limits.ts";
import type { Config } from "../config/config.ts";
import { ifPresent } from "../observed/read-cgroup.ts";
import type { NodeCgroupAccess } from "./local-node.ts";

/** How long systemd may take for a slice, and how long the connection to it stays open after the last call. */
const SYSTEMD_LIMITS = { timeoutMs: 30_000, idleMs: 5_000 };
/** Where every distribution mounts cgroup v2. */
export const CGROUP_MOUNT_POINT = "/sys/fs/cgroup";

export interface NodeAndPodCgroups {
  readonly pods: AwaitedCgroups;
  readonly node: NodeCgroupAccess;
  /** The path of the cgroup above all pods, below the mount point. Never resolves while the runtime has not answered. */
  readonly podsPath: () => Promise<string>;
}

interface CgroupsOptions {
  readonly config: Pick<Config, "cgroupDriver" | "cgroupRoot">;
  readonly runtime: Pick<RuntimeControl, "runtimeConfig">;
  /** Makes the adapter for a driver, and for the path that all names begin below. */
  readonly create: (driver: CgroupDriver, cgroupRoot: string) => Cgroups;
  readonly clock: Clock;
  readonly log: Log;
}

/** The cgroups of the node and of pods; undefined where the agent makes none (`cgroupsPerQOS: false`). */
export function createCgroupsIfConfigured(
  config: Config,
  { hugePageSizes, pageBytes, ...deps }: Pick<CgroupsOptions, "runtime" | "clock" | "log"> & PageSizes,
  signal: AbortSignal,
): NodeAndPodCgroups | undefined {
  if (!config.cgroupsPerQOS) return undefined;
  const { clock } = deps;
  const addresses = systemdAddresses;
  const systemd = createSystemd({ addresses, uid: process.getuid?.() ?? 0, clock, ...SYSTEMD_LIMITS });
  const shared = {
    root: CGROUP_MOUNT_POINT,
    files: createCgroupFiles(),
    sizes: { pageBytes, hugePageSizes },
    clock,
  };
  const create = (driver: CgroupDriver, cgroupRoot: string) =>
    createCgroups({ ...shared, cgroupRoot, systemd: driver === "systemd" ? systemd : undefined });
  return createNodeAndPodCgroups({ config, create, ...deps }, signal);
}

/**
 * The cgroups of the node and of pods. Their driver is the runtime's, so no call begins before the runtime has answered
 * once: until then nothing is known of its pods either.
 *
 * @internal
 */
export function createNodeAndPodCgroups(options: CgroupsOptions, signal: AbortSignal): NodeAndPodCgroups {
  const { config, create } = options;
  const known = readDriver(options, signal);
  const pods = awaitCgroups(known.then((driver) => create(driver, config.cgroupRoot)));
  const reserved = known.then((driver) => {
    const all = create(driver, "");
    return { all, nameOf: (path: string) => parseCgroupPath(path, driver) };
  });
  const podsPath = known.then((driver) =>
    createCgroupLayout({ root: "", cgroupRoot: config.cgroupRoot, driver }).path(kubepods),
  );
  const inOrder = createSerialQueue();
  return {
    pods,
    podsPath: () => podsPath,
    node: {
      driver: known,
      async read(cgroup) {
        if (cgroup.of === "own") return await ifPresent(() => pods.read(cgroup.name));
        const { all, nameOf } = await reserved;
        return await ifPresent(() => all.read(nameOf(cgroup.path)));
      },
      write: (cgroup, limits, signal) =>
        inOrder(async () => {
          signal.throwIfAborted();
          if (cgroup.of === "own") return await makeWithinUse(pods, cgroup.name, limits, signal);
          const { all, nameOf } = await reserved;
          await writeWithinUse(all, nameOf(cgroup.path), limits, signal);
        }),
    },
  };
}

/** How often a runtime that refuses to answer is asked, as the kubelet does. */
const MAX_REFUSALS = 3;
const RETRY = { initialMs: 100, maxMs: 2_000 };

/**
 * The runtime's cgroup driver; the configured one if the runtime does not say it (containerd before 2.0). While the runtime
 * is away, it is asked again until the signal aborts; then never resolves.
 */
async function readDriver(
  { config: { cgroupDriver: configured }, runtime, clock, log }: Omit<CgroupsOptions, "create">,
  signal: AbortSignal,
): Promise<CgroupDriver> {
  let refusals = 0;
  for (let tries = 1; !signal.aborted; tries++) {
    try {
      const reported = reportedCgroupDriver(await runtime.runtimeConfig({ signal }));
      if (reported !== undefined && reported !== configured)
        log.info(
          { cgroupDriver: reported },
          `the container runtime uses the cgroup driver ${reported}, which replaces ${configured} of the configuration`,
        );
      return reported ?? configured;
    } catch (error) {
      if (!(error instanceof CriError)) throw error;
      if (error.code === "UNIMPLEMENTED") return configured;
      if (error.code !== "UNAVAILABLE" && ++refusals === MAX_REFUSALS) {
        log.warn({ err: error }, `the container runtime does not say its cgroup driver; ${configured} is assumed`);
        return configured;
      }
    }
    await sleepUnlessAborted(clock, backoffMs(RETRY, tries), signal);
  }
  return await new Promise<never>(() => {});
}
