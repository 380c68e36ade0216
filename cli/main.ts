import { basename } from "node:path/posix";
import { BIND_BENEATH } from "../host/fs/bind-command.ts";
import { reexecute } from "./reexecute.ts";
import type { VersionTexts } from "./run.ts";
import { kubeletVersionLine, kubeletVersionRaw, versionLine } from "./version.ts";

const usage = `Berth is a Kubernetes node agent.

  berth run [flags]     run the agent; takes the kubelet's flags (berth run --help shows them)
  berth pods            show the pods of the running agent (-n, -o json, --watch, --volumes, --root-dir)
  berth status          show the state of the running agent: node, runtime, cluster, pods (-o json, --root-dir)
  berth doctor          show what this machine is, and what keeps an agent from running on it (-o json)
  berth version         show the release (-o json)

Started under the name kubelet, it takes the kubelet's flags directly.
`;

/**
 * Runs a command and returns its exit code. Everything but `version` is loaded on demand, which keeps the start fast
 * and small.
 */
async function main(name: string, args: readonly string[]): Promise<number> {
  if (name === "kubelet") return await run(args, { line: kubeletVersionLine, raw: kubeletVersionRaw });
  const [command, ...rest] = args;
  switch (command) {
    case "run":
      return await run(rest, { line: versionLine, raw: versionLine });
    case "pods":
      return await (await import("./pods.ts")).runPods(rest);
    case "status":
      return await (await import("./status.ts")).runStatus(rest);
    case "doctor":
      // With Bun's default threads a hanging disk would delay the reads of other disks. Nothing else depends on it.
      reexecute();
      // A read that hangs must not keep the process alive.
      return process.exit(await (await import("./doctor.ts")).runDoctor(rest));
    case BIND_BENEATH:
      return await (await import("./bind-beneath.ts")).runBindBeneath(rest);
    case "version":
    case "--version":
      if (rest.length > 0) return (await import("./print-version.ts")).printVersion(rest);
      process.stdout.write(versionLine());
      return 0;
    case undefined:
    case "help":
    case "--help":
    case "-h":
      process.stdout.write(usage);
      return 0;
    default:
      process.stderr.write(
        `berth: unknown command ${JSON.stringify(command)}; the commands are run, pods, status, doctor and version\n`,
      );
      return 2;
  }
}

async function run(args: readonly string[], version: VersionTexts): Promise<number> {
  const problem = reexecute();
  const code = await (await import("./run.ts")).run(args, version, problem === undefined ? [] : [problem]);
  // A hanging call must not keep the process alive: its instance lock would block the next agent.
  process.exit(code);
}

process.exitCode = await main(basename(process.argv0), process.argv.slice(2));
