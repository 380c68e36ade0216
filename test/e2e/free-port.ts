import { pickPorts } from "../bed/ports.ts";

/** Picks a free port of 127.0.0.1, outside the kernel's range for outgoing connections. */
export async function freePort(): Promise<number> {
  const [port = 0] = await pickPorts(1);
  return port;
}
