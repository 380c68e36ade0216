import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { formatBuiltinList } from "../../../cni/delegate/builtin-list.ts";
import { builtBinary } from "../agent.ts";
import { type BedRecord, bedPaths } from "../cleanup/bed-record.ts";
import { ownProcessGroup } from "../cleanup/processes.ts";

/**
 * Makes the folders of a bed whose agent executes the built-in network: the network has the bridge and the subnet of the bed,
 * so that beds do not share one. The runtime's plugins are the delegate and loopback, which the runtime itself executes.
 * `packagedPlugins` is the folder with loopback. Rejects if `berth cni install` fails.
 */
export async function installBuiltinNetwork(bed: BedRecord, packagedPlugins: string): Promise<void> {
  const { cniBinDir, cniCache, cniConfDir, cniDelegateDir, agentRoot } = bedPaths(bed.stateDir);
  const { network: name, bridge, subnet } = bed;
  await mkdir(cniBinDir, { recursive: true });
  await symlink(join(packagedPlugins, "loopback"), join(cniBinDir, "loopback"));
  await writeFile(join(cniConfDir, "10-berth.conflist"), formatBuiltinList([subnet], { name, bridge }));
  const folders = ["--conf-dir", cniDelegateDir, "--chain-dir", cniConfDir, "--bin-dir", cniBinDir];
  // In the machine's cache, the pods of this bed would keep another one from removing its network.
  const ofBed = ["--cache-dir", cniCache, "--root-dir", agentRoot];
  await execa(builtBinary, ["cni", "install", ...folders, ...ofBed], ownProcessGroup);
}
