import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { createPodNames, podShape } from "../bench-pod.ts";
import { connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import { type ClusterBenchOptions, withNodes } from "../cluster/cluster-bench.ts";
import { alternate, type ClusterSubjects, type PerAgent } from "../cluster/cluster-rounds.ts";
import { type LateServer, type LateServersPlan, measureLateServers, spreadOver } from "./late-servers.ts";
import { measureInitContainers, measureJob } from "./short-containers.ts";

/** How many pods of each kind in a group, and how many rounds. */
export interface StartsEffort {
  /** The agents run their groups of containers that need time in turns. */
  readonly groups: number;
  readonly servers: number;
  readonly commands: number;
  /** Servers that listen after 0.7 s. */
  readonly soonServers: number;
  /** The same with `successThreshold: 2`. */
  readonly twice: number;
  readonly jobs: number;
  readonly initPods: number;
}

export const thoroughStartsEffort: StartsEffort = {
  groups: 10,
  servers: 20,
  commands: 10,
  soonServers: 10,
  twice: 6,
  jobs: 7,
  initPods: 60,
};
/** The fewest repetitions that decide anything. */
export const publishedStartsEffort: StartsEffort = {
  groups: 5,
  servers: 12,
  commands: 12,
  soonServers: 8,
  twice: 4,
  jobs: 5,
  initPods: 60,
};
/** Shows that everything runs; decides nothing. */
export const quickStartsEffort: StartsEffort = {
  groups: 1,
  servers: 6,
  commands: 4,
  soonServers: 4,
  twice: 2,
  jobs: 1,
  initPods: 2,
};

export function describeStartsEffort(effort: StartsEffort): string {
  const { groups, servers, commands, soonServers, twice, jobs, initPods } = effort;
  const late = `${groups} groups each of ${servers} servers and ${commands} commands that are ready after 0.2 to 8 s, of ${soonServers} servers after 0.7 s, and of ${twice} of them with successThreshold 2, created at different moments`;
  const short = `a Job ${jobs} times, a pod with init containers ${initPods} times`;
  return `${late}; ${short}; kubelet ${builtVersion().split("-")[0]} and berth alternated who began, as two nodes of one cluster. ${podShape}`;
}

/** The containers that need time, by group. */
export type LateGroups = readonly (readonly LateServer[])[];

export interface StartsResult {
  readonly servers: PerAgent<LateGroups>;
  readonly commands: PerAgent<LateGroups>;
  readonly soonServers: PerAgent<LateGroups>;
  readonly twice: PerAgent<LateGroups>;
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

/** From 0.2 to 8 s, spread over all groups. */
const drawnMs = (count: number) => spreadOver(count).map((share) => 200 + share * 7_800);

/** The time in which one pod after the other is created: a start takes a fraction of it, so that few overlap. */
const MS_PER_POD = 500;

async function measureStarts(subjects: Omit<ClusterSubjects, "audit">, effort: StartsEffort): Promise<StartsResult> {
  const { members, print } = subjects;
  const { groups } = effort;
  const late = async (what: string, size: number, plan: Omit<LateServersPlan, "windowMs">) => {
    print(`${groups} × ${size} ${what}`);
    return await alternate(members, groups, (member, turn) => {
      const listenAfterMs = plan.listenAfterMs.slice(turn * size, (turn + 1) * size);
      return measureLateServers(subjects, member, { ...plan, listenAfterMs, windowMs: size * MS_PER_POD });
    });
  };
  const drawn = (size: number) => ({ listenAfterMs: drawnMs(groups * size) });
  const soon = (size: number) => ({ listenAfterMs: Array.from({ length: groups * size }, () => 700) });
  const network = { kinds: ["http", "tcp"] } as const;
  const { servers, commands, soonServers, twice } = effort;
  const probe = { successThreshold: 2 };
  return {
    servers: await late("servers that listen after 0.2 to 8 s", servers, { ...network, ...drawn(servers) }),
    commands: await late("commands that succeed after 0.2 to 8 s", commands, { kinds: ["exec"], ...drawn(commands) }),
    soonServers: await late("servers that listen after 0.7 s", soonServers, { ...network, ...soon(soonServers) }),
    twice: await late("servers with successThreshold 2", twice, { ...network, ...soon(twice), probe }),
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
