import { pickPorts } from "../bed/ports.ts";

/** A port of 127.0.0.1 where nobody answers, and which no outgoing connection is given. */
export async function freePort(): Promise<number> {
  const [port = 0] = await pickPorts(1);
  return port;
}
