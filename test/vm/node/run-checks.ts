// Boots a node with systemd and Berth, joins it to a control plane on this machine, and runs the checks of its cgroups:
// npm run vm -- node [--containerd 2.1] [--driver cgroupfs] [--short | --batch NAME ...] [--pods N] [--only TEXT ...]
import { parseArgs } from "node:util";
import { buildIfStale } from "../../bed/build.ts";
import { cgroupBatches } from "../../differential/cgroups/cgroup-cases.ts";
import type { Outcome } from "../../suite.ts";
import { closingLine, outcomeLine, seconds } from "../../test-summary.ts";
import { bundleContract } from "../contract/run-contract.ts";
import { type NodeBed, startNodeBed } from "./node-bed.ts";
import { type NodeCheck, nodeChecks } from "./node-checks.ts";
import { createRunFolder } from "./run-folder.ts";
import type { CgroupDriver, NodeContainerd } from "./system-files.ts";

interface NodeRun {
  readonly containerd: NodeContainerd;
  readonly driver: CgroupDriver;
  readonly isShort: boolean;
  readonly batches: readonly string[];
  readonly podCount: number;
  /** Parts of the names of the checks that run after the first one, which always runs; all checks if it is empty. */
  readonly only: readonly string[];
}

/** What a node accepts by default. */
const MAX_PODS = 110;

/** The batches with pods. */
const allBatches = Object.keys(cgroupBatches).filter((name) => name !== "none");

/** Runs the checks on one node up to the first that fails, prints each, and returns their outcomes. */
async function runNodeChecks(run: NodeRun, print: (line: string) => void): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  const record = async (name: string, check: () => Promise<string>): Promise<boolean> => {
    const started = performance.now();
    const [isPassed, detail] = await check().then(
      (text) => [true, text] as const,
      (error: unknown) => [false, error instanceof Error ? error.message : String(error)] as const,
    );
    const failed = isPassed ? [] : [`${name}: ${detail}`];
    const durationMs = performance.now() - started;
    const outcome = { name, durationMs, passed: 1 - failed.length, failed, skipped: [], log: "" };
    outcomes.push(outcome);
    print(`${outcomeLine(outcome)}   ${detail}`);
    return isPassed;
  };
  let bed: NodeBed | undefined;
  const folder = await createRunFolder("berth-vm-tests-");
  try {
    print(await buildIfStale());
    const isBooted = await record("boot", async () => {
      const tests = await bundleContract(folder.path);
      bed = await startNodeBed({ ...run, agents: run.isShort ? ["berth"] : ["kubelet", "berth"], tests, print });
      return await bed.guest.run(
        `echo "Linux $(uname -r), containerd $(ctr version 2> /dev/null | sed -n '/^Server/,$ s/^ *Version: *//p')"`,
      );
    });
    if (!isBooted || bed === undefined) return outcomes;
    for (const [name, check] of selectChecks(bed, run))
      if (!(await record(name, check))) {
        print(`the end of the agent's log:\n${await bed.agentLog("berth")}`);
        break;
      }
    return outcomes;
  } finally {
    await bed?.end();
    await folder.remove();
  }
}

/** The first check, which starts the agent, and those whose names the run selects. */
function selectChecks(bed: NodeBed, run: NodeRun): readonly NodeCheck[] {
  const isSelected = (name: string) => run.only.length === 0 || run.only.some((part) => name.includes(part));
  const [first, ...others] = nodeChecks(bed, run);
  const selected = others.filter(([name]) => isSelected(name));
  if (selected.length === 0)
    throw new Error(
      `no check is called ${run.only.join(" or ")}; there are:\n${others.map(([name]) => name).join("\n")}`,
    );
  return [first!, ...selected];
}

const usage =
  "npm run vm -- node [--containerd 1.7 | 2.1] [--driver systemd | cgroupfs] [--short | --batch NAME ...] [--pods N] [--only TEXT ...]";

/** Runs the checks that the arguments select. Returns the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      containerd: { type: "string", default: "1.7" },
      driver: { type: "string", default: "systemd" },
      short: { type: "boolean", default: false },
      batch: { type: "string", multiple: true, default: allBatches },
      pods: { type: "string", default: "30" },
      only: { type: "string", multiple: true, default: [] },
    },
  });
  const { containerd, driver, short: isShort, batch: batches, only } = values;
  const podCount = Number(values.pods);
  if (!Number.isInteger(podCount) || podCount < 1 || podCount > MAX_PODS) {
    console.error(`vm node: --pods is ${values.pods}, and must be from 1 to ${MAX_PODS}\n${usage}`);
    return 2;
  }
  if ((containerd !== "1.7" && containerd !== "2.1") || (driver !== "systemd" && driver !== "cgroupfs")) {
    console.error(usage);
    return 2;
  }
  const unknown = batches.filter((name) => !allBatches.includes(name));
  if (unknown.length > 0) {
    console.error(`vm node: there is no batch ${unknown.join(", ")}; there are ${allBatches.join(", ")}`);
    return 2;
  }
  const started = performance.now();
  const outcomes = await runNodeChecks({ containerd, driver, isShort, batches, podCount, only }, console.log);
  console.log(`total time: ${seconds(performance.now() - started)}`);
  console.log(closingLine(outcomes));
  return outcomes.some(({ failed }) => failed.length > 0) ? 1 : 0;
}
