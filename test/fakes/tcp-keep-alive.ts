import { readFile } from "node:fs/promises";

/** Whether the kernel's keep-alive timer runs for the TCP connection of 127.0.0.1 from one port to another. */
export async function hasKeepAlive(localPort: number, remotePort: number): Promise<boolean> {
  const ends = [localPort, remotePort].map((port) => `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`);
  const lines = (await readFile("/proc/net/tcp", "utf8")).split("\n").map((line) => line.trim().split(/\s+/));
  const found = lines.find(([, local, remote]) => local === ends[0] && remote === ends[1]);
  // 02 is the timer of keep-alive (proc_net_tcp.txt of the kernel).
  return found?.[5]?.startsWith("02:") === true;
}
