// What the descriptors of a process lead to, so that a leak says what leaks.
import { readdir, readFile, readlink } from "node:fs/promises";
import { ifAbsent } from "../../bed/if-absent.ts";

/**
 * What the descriptors of a process lead to: paths, and sockets such as `unix /run/x.sock` and `tcp from :10250 to :4711 (01)` with the state of
 * the connection. Those of netlink are left out: after links have changed the agent closes the one that reports addresses for ten seconds.
 */
export async function descriptorsOf(pid: number): Promise<readonly string[]> {
  const sockets = await socketsOf(pid);
  const names = await readdir(`/proc/${pid}/fd`);
  // One that was closed since the folder was read is none.
  const targets = await Promise.all(
    names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(ifAbsent<string | undefined>(undefined))),
  );
  return targets
    .flatMap((target) => (target === undefined ? [] : [sockets.get(target) ?? target]))
    .filter((target) => target !== "netlink");
}

/** Those of `now` that are more than in `before`, each as often as it is more. */
export function addedDescriptors(before: readonly string[], now: readonly string[]): readonly string[] {
  const left = [...before];
  return now.filter((target) => {
    const at = left.indexOf(target);
    if (at !== -1) left.splice(at, 1);
    return at === -1;
  });
}

/** The sockets of the process's network namespace by the names of their descriptors. proc_pid_net(5). */
async function socketsOf(pid: number): Promise<ReadonlyMap<string, string>> {
  const lines = async (name: string) => (await readFile(`/proc/${pid}/net/${name}`, "utf8")).split("\n").slice(1);
  const sockets = new Map<string, string>();
  for (const line of await lines("netlink"))
    sockets.set(`socket:[${line.trim().split(/\s+/).at(-1) ?? ""}]`, "netlink");
  for (const line of await lines("unix")) {
    const [, , , , , , inode = "", path = "without a name"] = line.trim().split(/\s+/);
    sockets.set(`socket:[${inode}]`, `unix ${path}`);
  }
  for (const line of [...(await lines("tcp")), ...(await lines("tcp6"))]) {
    const fields = line.trim().split(/\s+/);
    const [, local = "", remote = "", state = "", , , , , , inode = ""] = fields;
    const portOf = (address: string) => Number.parseInt(address.split(":")[1] ?? "", 16);
    sockets.set(`socket:[${inode}]`, `tcp from :${portOf(local)} to :${portOf(remote)} (${state})`);
  }
  return sockets;
}
