import { describeLimits } from "../../../agent/decide/cgroups/limit-differences.ts";
import type { PodReport } from "../../../agent/report/local/pod-reports.ts";
import { type ContainerState, PodSandboxState } from "../../../proto/cri/gen/api.ts";
import type { FakeCgroups } from "../../fakes/cgroups.ts";
import type { FakeDisk } from "../../fakes/files.ts";
import type { FakeMounts } from "../../fakes/mounts.ts";
import type { FakeRuntime } from "../../fakes/runtime.ts";
import { summarizeReport } from "./log-lines.ts";

interface SnapshotInput {
  readonly runtime: FakeRuntime;
  readonly disk: FakeDisk;
  readonly mounts: FakeMounts;
  readonly cgroups: FakeCgroups;
  /** The lines of the network of pods, if the agent owns it. */
  readonly network: readonly string[];
  readonly reports: readonly PodReport[];
}

/** The state of a node, sorted: sandboxes, containers, files, mounts and reports, without ids and times. */
export function nodeSnapshot({ runtime, disk, mounts, cgroups, network, reports }: SnapshotInput): readonly string[] {
  return [
    ...sandboxLines(runtime),
    ...containerLines(runtime),
    ...fileLines(disk),
    ...volumeFileLines(disk),
    ...cgroupLines(cgroups),
    ...network,
    ...mounts.mountPoints.map((path) => `mount ${withoutIds(path)}`),
    ...reports.map((report) => `pod ${summarizeReport(report)}`),
  ].toSorted();
}

function sandboxLines({ sandboxes }: FakeRuntime): readonly string[] {
  return [...sandboxes.values()].map(
    ({ config, state }) =>
      `sandbox ${config.metadata?.name} #${config.metadata?.attempt} ${state === PodSandboxState.SANDBOX_READY ? "ready" : "not ready"}`,
  );
}

function containerLines({ containers }: FakeRuntime): readonly string[] {
  return [...containers.values()].map(
    ({ config, sandbox, state, exitCode }) =>
      `container ${sandbox.config.metadata?.name}/${config.metadata?.name} #${config.metadata?.attempt} ${stateNames[state] ?? state}${stateNames[state] === "exited" ? ` ${exitCode}` : ""}`,
  );
}

const stateNames: Readonly<Record<ContainerState, string>> = { 0: "created", 1: "running", 2: "exited", 3: "unknown" };

function fileLines(disk: FakeDisk): readonly string[] {
  const ofPods = /^\/root\/pods\/[^/]+$|^\/logs\/[^/]+$|\.log$|\/berth\/pods\/.*\.json$/;
  return disk
    .paths()
    .filter((path) => ofPods.test(path))
    .map(withoutIds);
}

/** The files that containers see in volumes, with their content; a token is another one after each request. */
function volumeFileLines({ nodes }: FakeDisk): readonly string[] {
  const ofData = /^(\/root\/pods\/[^/]+\/volumes\/[^/]+\/[^/]+)\/(\.\.\d[^/]*)\/(.+)$/;
  return [...nodes].flatMap(([path, node]) => {
    const [, folder = "", version = "", file = ""] = ofData.exec(path) ?? [];
    const data = nodes.get(`${folder}/..data`);
    if (node.kind !== "file" || data?.kind !== "symlink" || data.target !== version) return [];
    return [`file ${withoutIds(folder)}/${file} ${file === "token" ? "…" : JSON.stringify(node.content)}`];
  });
}

/** The cgroups with their limits. */
function cgroupLines(cgroups: FakeCgroups): readonly string[] {
  return cgroups.names.map((name) => {
    const limits = cgroups.limitsOf(name.split("/")) ?? {};
    return `cgroup ${name.replace(/\/pod[0-9a-f-]+$/, "/podUID")} ${describeLimits(limits)}`;
  });
}

function withoutIds(path: string): string {
  return path
    .replaceAll(/[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "UID")
    .replace(/-container-\d+\.log$/, "-ID.log");
}
