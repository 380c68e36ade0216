import { lstat, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pollUntil } from "../../bed/poll-until.ts";
import type { ApiClient } from "../cluster/api-client.ts";
import {
  type ClusterSubjects,
  deletePods,
  type RunningContainer,
  spreadMs,
  startContainers,
} from "../cluster/cluster-rounds.ts";
import type { ComparedNode } from "../cluster/compared-node.ts";
import { configMapsPath, createConfigMap, mountedConfigMap, podWithConfigMap } from "./volume-pods.ts";

const TIMEOUT_MS = 150_000;

type Subjects = Pick<ClusterSubjects, "api" | "watch" | "names">;

/** Edits one ConfigMap `count` times. Returns the time of each from the request to the container's file, in milliseconds. */
export async function measureChangesInTurn(
  subjects: Subjects,
  member: ComparedNode,
  count: number,
): Promise<readonly number[]> {
  const mounted = await startWithConfigMap(subjects, member);
  const latencies: number[] = [];
  for (let turn = 0; turn < count; turn++) {
    await pause(spreadMs(turn));
    latencies.push(await measureChange(subjects.api, mounted, `${turn}`));
  }
  await deletePods(subjects, [mounted.name]);
  return latencies;
}

/** The kubelet looks at a pod's volumes this long after the last time, and up to a half longer. */
const PERIOD_MS = 60_000;

/**
 * Edits the ConfigMaps of several pods, which have just started, for an agent with that period. The edits are spread over
 * the period, so that they wait for its end as long as edits at any time do. Returns the same.
 */
export async function measureChangesWithinPeriod(
  subjects: Subjects,
  mounted: readonly RunningContainer[],
): Promise<readonly number[]> {
  const latencies = await Promise.all(
    mounted.map(async (one, at) => {
      await pause(((at + 0.5) / mounted.length) * PERIOD_MS);
      return await measureChange(subjects.api, one, "changed");
    }),
  );
  await deletePods(
    subjects,
    mounted.map(({ name }) => name),
  );
  return latencies;
}

/** Starts a pod with a ConfigMap of the same name. */
export async function startWithConfigMap(subjects: Subjects, member: ComparedNode): Promise<RunningContainer> {
  const names = subjects.names(1);
  for (const name of names) await createConfigMap(subjects.api, name);
  const [mounted] = await startContainers(subjects, member, names, podWithConfigMap(names[0] ?? ""));
  if (mounted === undefined || mounted.pid === 0) throw new Error(`${member.nodeName} does not run ${names.join()}`);
  return mounted;
}

async function measureChange(
  api: Pick<ApiClient, "patch">,
  { name, pid }: RunningContainer,
  value: string,
): Promise<number> {
  const directory = mountedConfigMap(pid);
  const requestedAt = Date.now();
  await api.patch(`${configMapsPath}/${name}`, { data: { key: value } });
  const isChanged = async () => (await readFile(join(directory, "key"), "utf8")) === value;
  await pollUntil(`the change of the ConfigMap ${name} in its pod`, TIMEOUT_MS, isChanged, POLL_MS);
  // Both agents rename a symlink to replace all files at once, and the kernel records when.
  return Math.max(0, (await lstat(join(directory, "..data"))).ctimeMs - requestedAt);
}

/** The time of the change is read from the file system: this only limits what the measurement costs. */
const POLL_MS = 25;
