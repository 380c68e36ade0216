import { FilesError } from "../../host/fs/files.ts";
import type { Sysctls } from "../../host/sysctls.ts";
import type { Config } from "../config/config.ts";
import { StartError } from "./start-error.ts";

/**
 * What Kubernetes expects of the kernel: it promises memory that it may not have, and lets the OOM killer end processes
 * when it is short of it; it restarts the machine ten seconds after a panic, and panics after an oops, since a node that
 * hangs is worse than one that restarts; and root has keys for all containers. Rule: the kubelet's setupKernelTunables.
 */
const TUNABLES: Readonly<Record<string, string>> = {
  "vm/overcommit_memory": "1",
  "vm/panic_on_oom": "0",
  "kernel/panic": "10",
  "kernel/panic_on_oops": "1",
  "kernel/keys/root_maxkeys": "1000000",
  "kernel/keys/root_maxbytes": "25000000",
};

/**
 * Refuses to start on a kernel with other settings, as `protectKernelDefaults` wants it. Throws `StartError` that lists
 * every difference, so that one command suffices. A setting that the kernel lacks or hides counts as a difference.
 */
export async function checkKernelTunables(
  { protectKernelDefaults }: Pick<Config, "protectKernelDefaults">,
  sysctls: Sysctls,
): Promise<void> {
  if (!protectKernelDefaults) return;
  const differences = await Promise.all(
    Object.entries(TUNABLES).map(async ([path, wanted]) => {
      const found = await readValue(sysctls, path);
      return found === wanted ? [] : [{ name: path.replaceAll("/", "."), wanted, found }];
    }),
  );
  const all = differences.flat();
  if (all.length === 0) return;
  const found = all.map((each) => `${each.name} is ${each.found}`).join(", ");
  const command = all.map(({ name, wanted }) => `${name}=${wanted}`).join(" ");
  throw new StartError(
    `protectKernelDefaults is true, and the kernel has other settings than Kubernetes expects (${found}): run sysctl -w ${command} and keep them in /etc/sysctl.d, or set protectKernelDefaults: false`,
  );
}

async function readValue(sysctls: Sysctls, path: string): Promise<string> {
  try {
    return await sysctls.read(path);
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    return `unreadable (${error.message})`;
  }
}
