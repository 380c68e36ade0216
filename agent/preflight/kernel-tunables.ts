import { FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import type { Sysctls } from "../../host/sysctls.ts";
import type { Config } from "../config/config.ts";
import { StartError } from "./start-error.ts";

export interface KernelTunable {
  /** The sysctl, such as `vm.overcommit_memory`. */
  readonly name: string;
  readonly value: number;
  /** A higher value of the administrator serves as well, and stays. */
  readonly isMinimum?: true;
}

/** The sysctls that Kubernetes expects. Rule: the kubelet's setupKernelTunables. */
export const kernelTunables: readonly KernelTunable[] = [
  // Memory is granted without a count: the limits of pods decide.
  { name: "vm.overcommit_memory", value: 1 },
  // A lack of memory ends one process and not the machine.
  { name: "vm.panic_on_oom", value: 0 },
  // The machine reboots ten seconds after a crash of its kernel, and a kernel error is a crash: a node that hangs is worse.
  { name: "kernel.panic", value: 10 },
  { name: "kernel.panic_on_oops", value: 1 },
  // Each container takes a key of root.
  { name: "kernel.keys.root_maxkeys", value: 1_000_000, isMinimum: true },
  { name: "kernel.keys.root_maxbytes", value: 25_000_000, isMinimum: true },
];

/** Whether a kernel with this value needs no other one. */
export function isTuned({ value, isMinimum }: KernelTunable, found: number): boolean {
  return isMinimum ? found >= value : found === value;
}

type Settings = Pick<Config, "protectKernelDefaults" | "setsKernelTunables">;

/**
 * Sets the sysctls that differ, and warns of those that cannot be set. With `protectKernelDefaults` it throws `StartError`
 * instead, which lists every difference; with `--set-kernel-tunables=false` nothing is read or set.
 */
export async function applyKernelTunables(
  { protectKernelDefaults, setsKernelTunables }: Settings,
  sysctls: Sysctls,
  log: Log,
): Promise<void> {
  if (protectKernelDefaults) return await refuseDifferences(sysctls);
  if (setsKernelTunables) await setDifferences(sysctls, log);
}

async function setDifferences(sysctls: Sysctls, log: Log): Promise<void> {
  const failures: string[] = [];
  for (const tunable of kernelTunables) {
    const { name, value } = tunable;
    try {
      const found = await sysctls.read(pathOf(tunable));
      if (isTuned(tunable, Number(found))) continue;
      await sysctls.write(pathOf(tunable), String(value));
      log.info({ sysctl: name, before: found, now: value }, "set a sysctl as Kubernetes expects it");
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      failures.push(`${name}=${value} (${error.message})`);
    }
  }
  if (failures.length > 0)
    log.warn(
      {},
      `cannot set sysctls as Kubernetes expects them: ${failures.join(", ")}; set them where /proc/sys can be written, or start with --set-kernel-tunables=false`,
    );
}

/** A setting that the kernel lacks or hides counts as a difference. */
async function refuseDifferences(sysctls: Sysctls): Promise<void> {
  const differences = await Promise.all(
    kernelTunables.map(async (tunable) => {
      const read = await readValue(sysctls, pathOf(tunable));
      // Also a higher minimum: the kubelet refuses every other value.
      return read.found === String(tunable.value) ? [] : [{ ...tunable, ...read }];
    }),
  );
  const all = differences.flat();
  if (all.length === 0) return;
  const found = all.map((each) => `${each.name} is ${each.found}`).join(", ");
  const settings = all.flatMap(({ name, value, isReadable }) => (isReadable ? [`${name}=${value}`] : []));
  const cure = settings.length === 0 ? "" : `run sysctl -w ${settings.join(" ")} and keep them in /etc/sysctl.d, or `;
  const hidden = settings.length === all.length ? "" : "; this kernel lacks what is unreadable, or /proc/sys hides it";
  throw new StartError(
    `protectKernelDefaults is true, and the kernel has other settings than Kubernetes expects (${found}): ${cure}set protectKernelDefaults: false${hidden}`,
  );
}

const pathOf = ({ name }: KernelTunable) => name.replaceAll(".", "/");

async function readValue(
  sysctls: Sysctls,
  path: string,
): Promise<{ readonly found: string; readonly isReadable: boolean }> {
  try {
    return { found: await sysctls.read(path), isReadable: true };
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    return { found: `unreadable (${error.message})`, isReadable: false };
  }
}
