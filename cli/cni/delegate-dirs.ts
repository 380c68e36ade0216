import { DELEGATE_DIR } from "../../agent/config/config.ts";
import { findRunningAgent } from "../running-agent.ts";

/** The folders that may have a delegate's list: the usual one, and that of the agent which answers on this root directory. */
export async function findDelegateDirs(rootDir: string): Promise<readonly string[]> {
  const flags = (await findRunningAgent(rootDir))?.flags ?? [];
  const ofAgent = flags.findLast(({ flag }) => flag.name === "network-delegate-dir")?.text ?? "";
  return ofAgent === "" ? [DELEGATE_DIR] : [...new Set([DELEGATE_DIR, ofAgent])];
}
