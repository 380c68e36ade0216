import { FilesError } from "../../host/fs/files.ts";
import type { Sysctls } from "../../host/sysctls.ts";
import type { Config } from "../config/config.ts";
import { StartError } from "./start-error.ts";

/**
 * The sysctls that Kubernetes expects: the kernel overcommits memory and does not panic when it runs out; it panics after an
 * oops, and reboots ten seconds after a panic, since a node that hangs is worse than one that reboots; root may have the
 * keys of all containers. Rule: the kubelet's setupKernelTunables.
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
      const read = await readValue(sysctls, path);
      return read.found === wanted ? [] : [{ name: path.replaceAll("/", "."), wanted, ...read }];
    }),
  );
  const all = differences.flat();
  if (all.length === 0) return;
  const found = all.map((each) => `${each.name} is ${each.found}`).join(", ");
  const settings = all.flatMap(({ name, wanted, isReadable }) => (isReadable ? [`${name}=${wanted}`] : []));
  const cure = settings.length === 0 ? "" : `run sysctl -w ${settings.join(" ")} and keep them in /etc/sysctl.d, or `;
  const hidden = settings.length === all.length ? "" : "; this kernel lacks what is unreadable, or /proc/sys hides it";
  throw new StartError(
    `protectKernelDefaults is true, and the kernel has other settings than Kubernetes expects (${found}): ${cure}set protectKernelDefaults: false${hidden}`,
  );
}

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
