import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { createPodNames } from "../bench-pod.ts";
import { connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import { type ClusterBenchOptions, withNodes } from "../cluster/cluster-bench.ts";
import { alternate, type ClusterSubjects, type PerAgent } from "../cluster/cluster-rounds.ts";
import { type LateServer, type LateServersPlan, measureLateServers, spreadOver } from "./late-servers.ts";
import { measureInitContainers, measureJob } from "./short-containers.ts";

/** How many pods or rounds of each kind. */
export interface StartsEffort {
  readonly servers: number;
  readonly commands: number;
  /** Servers that listen after 0.7 s. */
  readonly soonServers: number;
  /** The same with `successThreshold: 2`. */
  readonly twice: number;
  readonly jobs: number;
  readonly initPods: number;
}

export const fullStartsEffort: StartsEffort = {
  servers: 60,
  commands: 30,
  soonServers: 40,
  twice: 20,
  jobs: 3,
  initPods: 15,
};
export const quickStartsEffort: StartsEffort = {
  servers: 60,
  commands: 20,
  soonServers: 20,
  twice: 12,
  jobs: 1,
  initPods: 5,
};

export function describeStartsEffort({ servers, commands, soonServers, twice, jobs, initPods }: StartsEffort): string {
  const late = `${servers} servers and ${commands} commands that are ready after 0.2 to 8 s, ${soonServers} servers after 0.7 s, ${twice} of them with successThreshold 2, created at different moments`;
  const short = `a Job ${jobs} times, a pod with init containers ${initPods} times`;
  return `${late}; ${short}; kubelet ${builtVersion().split("-")[0]} and berth in turns, as two nodes of one cluster.`;
}

export interface StartsResult {
  readonly servers: PerAgent<readonly LateServer[]>;
  readonly commands: PerAgent<readonly LateServer[]>;
  readonly soonServers: PerAgent<readonly LateServer[]>;
  readonly twice: PerAgent<readonly LateServer[]>;
  /** From the create request to Complete, in milliseconds. */
  readonly jobs: PerAgent<readonly number[]>;
  /** From the create request to Ready, in milliseconds. */
  readonly initPods: PerAgent<readonly number[]>;
}

/**
 * Measures how soon containers that need time are Ready, and starts of several short containers, on the agent and the
 * reference kubelet as nodes of one cluster. Always cleans up.
 */
export async function benchStarts(
  options: Omit<ClusterBenchOptions, "effort"> & { readonly effort: StartsEffort },
): Promise<StartsResult> {
  const { folder, version, effort, interruption } = options;
  await mkdir(folder, { recursive: true });
  const plane = await startControlPlane({ stateDir: join(folder, "starts-plane"), print: console.log });
  const api = connectApi(plane);
  try {
    const shared = { api, watch: await watchApi(api), names: createPodNames(), print: console.log };
    return await withNodes(plane, options, version, async (members) => {
      await Promise.all([members.kubelet.start(), members.berth.start()]);
      return await Promise.race([measureStarts({ ...shared, members }, effort), interruption]);
    });
  } finally {
    api.close();
    await plane.stop();
  }
}

/** From 0.2 to 8 s. */
const drawnMs = (count: number) => spreadOver(count).map((share) => 200 + share * 7_800);

/** The time in which one pod after the other is created: a start takes a fraction of it, so that few overlap. */
const MS_PER_POD = 500;

async function measureStarts(subjects: Omit<ClusterSubjects, "audit">, effort: StartsEffort): Promise<StartsResult> {
  const { members, print } = subjects;
  const late = async (what: string, plan: Omit<LateServersPlan, "windowMs">) => {
    print(what);
    const windowMs = plan.listenAfterMs.length * MS_PER_POD;
    const measured = await alternate(members, 1, (member) =>
      measureLateServers(subjects, member, { ...plan, windowMs }),
    );
    return { kubelet: measured.kubelet.flat(), berth: measured.berth.flat() };
  };
  const soon = (count: number) => Array.from({ length: count }, () => 700);
  const network = { kinds: ["http", "tcp"] } as const;
  return {
    servers: await late(`${effort.servers} servers that listen after 0.2 to 8 s`, {
      ...{ ...network, listenAfterMs: drawnMs(effort.servers) },
    }),
    commands: await late(`${effort.commands} commands that succeed after 0.2 to 8 s`, {
      ...{ kinds: ["exec"], listenAfterMs: drawnMs(effort.commands) },
    }),
    soonServers: await late(`${effort.soonServers} servers that listen after 0.7 s`, {
      ...{ ...network, listenAfterMs: soon(effort.soonServers) },
    }),
    twice: await late(`${effort.twice} of them with successThreshold 2`, {
      ...{ ...network, listenAfterMs: soon(effort.twice), probe: { successThreshold: 2 } },
    }),
    ...(await measureShortContainers(subjects, effort)),
  };
}

async function measureShortContainers(
  subjects: Omit<ClusterSubjects, "audit">,
  effort: StartsEffort,
): Promise<Pick<StartsResult, "jobs" | "initPods">> {
  const { members, print } = subjects;
  print(`a Job, ${effort.jobs} times each`);
  const jobs = await alternate(members, effort.jobs, (member) => measureJob(subjects, member));
  print(`a pod with init containers, ${effort.initPods} times each`);
  return {
    jobs,
    initPods: await alternate(members, effort.initPods, (member) => measureInitContainers(subjects, member)),
  };
}
