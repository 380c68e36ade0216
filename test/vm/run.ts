// npm run vm: the compiled agent in an emulated guest with cgroup v2, without a cluster.
// npm run vm -- node: on a guest with systemd, which joins a control plane on this machine.
// npm run vm -- contract: the contract of cgroups on such a guest, without a cluster.
// npm run vm -- measure: Berth beside the reference kubelet on such a guest.
// npm run vm -- record-cgroups: the reference kubelet on such a guest, whose cgroups are recorded.
import { join } from "node:path";
import { listRecords } from "../bed/cleanup/bed-record.ts";
import { cleanUp } from "../bed/cleanup/clean-up.ts";
import { createInterruption } from "../interruption.ts";
import { main as checkContract } from "./contract/run-contract.ts";
import { main as measure } from "./node/measure.ts";
import { main as recordCgroups } from "./node/record-cgroups.ts";
import { main as checkNode } from "./node/run-checks.ts";
import { main as checkGuest } from "./run-guest.ts";

/** Removes the control plane that this process has started. */
async function removeOwnBeds(): Promise<void> {
  const own = (await listRecords()).filter(({ owner }) => owner.pid === process.pid);
  for (const record of own) await cleanUp(record);
}

async function main([command, ...args]: readonly string[]): Promise<number> {
  if (process.arch !== "x64") {
    console.error(
      "vm: the guest has an x86-64 processor, but the agent is compiled for this machine's: run it on an x86-64 machine",
    );
    return 1;
  }
  if (command === undefined) return await checkGuest();
  createInterruption({ print: console.log, cleanUp: removeOwnBeds });
  if (command === "node") return await checkNode(args);
  if (command === "contract") return await checkContract();
  if (command === "measure") return await measure(args);
  if (command === "record-cgroups") return await recordCgroups(args);
  console.error(`vm: there is no command ${command}; there are node, contract, measure and record-cgroups`);
  return 2;
}

process.chdir(join(import.meta.dirname, "..", ".."));
process.exitCode = await main(process.argv.slice(2));
