import {
  CgroupDriver as CriCgroupDriver,
  type RuntimeConfigResponse,
  type StatusResponse,
} from "../proto/cri/gen/api.ts";
import type { CgroupDriver } from "../proto/kubelet/config.ts";
import { containerdConfig, type Fields, fieldsAt } from "./containerd-config.ts";
import { CriError } from "./error.ts";
import type { CriCallOptions } from "./runtime.ts";
import type { RuntimeControl } from "./runtime-control.ts";

/** Which cgroup driver a runtime uses. */
export interface RuntimeCgroupDriver {
  readonly name: CgroupDriver;
  /** The runtime answers `RuntimeConfig`: an agent takes this driver when it starts. Else containerd's configuration shows it. */
  readonly isReported: boolean;
}

/**
 * The runtime's cgroup driver: by `RuntimeConfig`, else from containerd's configuration in its verbose status (1.6 and 1.7).
 * Undefined if the runtime says neither. Rejects with `CriError` if it does not answer.
 */
export async function readCgroupDriver(
  runtime: Pick<RuntimeControl, "runtimeConfig" | "verboseStatus">,
  options?: CriCallOptions,
): Promise<RuntimeCgroupDriver | undefined> {
  const reported = await runtime.runtimeConfig(options).catch(undefinedIfUnimplemented);
  return runtimeCgroupDriver(
    reported,
    reported?.linux === undefined ? await runtime.verboseStatus(options) : undefined,
  );
}

/** The driver that a runtime shows in its answers to `RuntimeConfig` and to a verbose `Status`. */
export function runtimeCgroupDriver(
  config: RuntimeConfigResponse | undefined,
  verboseStatus: StatusResponse | undefined,
): RuntimeCgroupDriver | undefined {
  const reported = reportedCgroupDriver(config);
  if (reported !== undefined) return { name: reported, isReported: true };
  const name = verboseStatus && containerdDriver(containerdConfig(verboseStatus));
  return name && { name, isReported: false };
}

/** The driver in the answer to `RuntimeConfig`; undefined if it has none that is known. */
export function reportedCgroupDriver(config: RuntimeConfigResponse | undefined): CgroupDriver | undefined {
  return config?.linux && names.get(config.linux.cgroupDriver);
}

const names: ReadonlyMap<CriCgroupDriver, CgroupDriver> = new Map([
  [CriCgroupDriver.SYSTEMD, "systemd"],
  [CriCgroupDriver.CGROUPFS, "cgroupfs"],
]);

function undefinedIfUnimplemented(error: unknown): undefined {
  if (!(error instanceof CriError) || error.code !== "UNIMPLEMENTED") throw error;
  return undefined;
}

/** The driver of the default runtime, if that is runc or has its options. */
function containerdDriver(config: Fields): CgroupDriver | undefined {
  const containerd = fieldsAt(config, "containerd");
  const name = containerd["defaultRuntimeName"];
  const runtime = fieldsAt(fieldsAt(containerd, "runtimes"), typeof name === "string" ? name : "runc");
  if (runtime["runtimeType"] !== "io.containerd.runc.v2") return undefined;
  // Options that are not set are not shown: without this one, runc uses cgroupfs.
  return fieldsAt(runtime, "options")["SystemdCgroup"] === true ? "systemd" : "cgroupfs";
}
