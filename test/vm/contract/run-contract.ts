// Runs the contract of cgroups in a guest, on the kernel's own tree, with both drivers.
import { join } from "node:path";
import { execa } from "execa";
import { ownProcessGroup } from "../../bed/cleanup/processes.ts";
import { readJunit } from "../../junit.ts";
import { applySkipPolicy } from "../../skip-policy.ts";
import { type Outcome, strayFailures } from "../../suite.ts";
import { closingLine, failureExcerpts, outcomeLine, seconds } from "../../test-summary.ts";
import { testsFolder } from "../guest-paths.ts";
import { bootNode, type GuestNode } from "../node/guest-node.ts";
import { createRunFolder } from "../node/run-folder.ts";

const minuteMs = 60_000;
/** A test starts a few processes, and reads systemd's configuration again. */
const TEST_TIMEOUT_MS = minuteMs;
const RUN_TIMEOUT_MS = 8 * minuteMs;

const repository = join(import.meta.dirname, "..", "..", "..");
const bundleName = "cgroups.test.js";
const guestFiles = {
  bun: `${testsFolder}/bun`,
  bundle: `./${bundleName}`,
  log: "/run/contract.log",
  report: "/run/contract.xml",
};

/** Bundles the tests into a file of `folder`. Returns what a guest that runs them needs, as `tests` of its options. */
export async function bundleContract(folder: string): Promise<Readonly<Record<string, string>>> {
  const outfile = join(folder, bundleName);
  const source = join(import.meta.dirname, "guest-tests.ts");
  const options = ["--target=bun", `--outfile=${outfile}`];
  await execa(process.execPath, ["build", ...options, source], { ...ownProcessGroup, cwd: repository });
  return { bun: process.execPath, [bundleName]: outfile };
}

/** The result of the tests of a guest, and their whole output. */
export interface ContractResult {
  readonly outcome: Outcome;
  readonly output: string;
}

/** Runs the tests in a guest that has them, where each must run. Throws only if the guest does not answer. */
export async function runContract(guest: Pick<GuestNode, "run">): Promise<ContractResult> {
  const { bun, bundle, log, report } = guestFiles;
  const started = performance.now();
  const reporting = `--reporter=junit --reporter-outfile=${report}`;
  const code = await guest.run(
    `cd ${testsFolder}
NO_COLOR=1 TMPDIR=/run ${bun} test ${bundle} --timeout=${TEST_TIMEOUT_MS} ${reporting} > ${log} 2>&1 && echo 0 || echo $?`,
    RUN_TIMEOUT_MS,
  );
  const durationMs = performance.now() - started;
  const output = await guest.run(`cat ${log}`);
  const { passed, failed, skipped } = readJunit(await guest.run(`test ! -f ${report} || cat ${report}`));
  const strays = strayFailures(output, code === "0" ? undefined : `ended with code ${code}`, failed.length);
  const none = passed + failed.length + strays.length === 0 ? ["no test ran"] : [];
  const outcome = {
    name: "contract of cgroups",
    durationMs,
    passed,
    failed: [...failed, ...strays, ...none],
    skipped,
    log,
  };
  return { outcome: applySkipPolicy(outcome, false, { BERTH_REQUIRE_ALL: "1" }), output };
}

/** The tests that failed or were skipped, and the words of those that failed. */
export function describeFailures({ outcome: { failed }, output }: ContractResult): string {
  return failed.length === 0 ? "" : [...failed, ...failureExcerpts(output)].join("\n");
}

/** Boots a guest without a control plane and runs the tests in it. Returns the exit code. */
export async function main(): Promise<number> {
  const started = performance.now();
  const folder = await createRunFolder("berth-vm-contract-");
  let guest: GuestNode | undefined;
  try {
    const tests = await bundleContract(folder.path);
    const node = { hostName: "vm-contract", containerd: "1.7", driver: "systemd", agents: {}, tests } as const;
    guest = await bootNode(node, console.log);
    console.log(`the guest runs after ${seconds(performance.now() - started)}`);
    const result = await runContract(guest);
    const { outcome, output } = result;
    console.log([output, ...outcome.failed].join("\n"));
    console.log(`${outcomeLine(outcome)}\ntotal time: ${seconds(performance.now() - started)}`);
    console.log(closingLine([outcome]));
    return outcome.failed.length > 0 ? 1 : 0;
  } finally {
    await guest?.end();
    await folder.remove();
  }
}
