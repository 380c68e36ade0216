import { setTimeout as pause } from "node:timers/promises";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { benchPod } from "../bench-pod.ts";
import { podsPath } from "../cluster/api-watch.ts";
import { type Both, type ClusterSubjects, deletePods, inTurns, startPods } from "../cluster/cluster-rounds.ts";
import type { Member } from "../cluster/compared-node.ts";
import { usageOf } from "../process-usage.ts";
import { type Door, openDoor, startAnswerer } from "./probe-targets.ts";

/** How many containers are asked every second. */
export const PROBES = 50;

export interface ProbeEffort {
  /** For how long what an agent uses is measured, with pods that nobody asks, and with those that are asked. */
  readonly unaskedMs: number;
  readonly askedMs: number;
  /** How often an answer changes. */
  readonly turns: number;
}

/** What an agent uses in some time. */
export interface Usage {
  readonly lastedMs: number;
  readonly cpuMs: number;
}

export interface Probing {
  /** With as many pods that have no probe. */
  readonly unasked: Usage;
  readonly asked: Usage;
  /** How often somebody connected while they were asked. */
  readonly probes: number;
}

export interface ReadinessChanges {
  /** The first answer of another kind → the pod's condition `Ready` in the API. */
  readonly agents: Both<readonly number[]>;
  /** Somebody sends that condition himself → it is in the API. */
  readonly floor: readonly number[];
}

type Subjects = Pick<ClusterSubjects, "api" | "watch" | "members" | "names" | "say">;

/** Of the node's own address, so that no network of pods is in the way. */
const host = "127.0.0.1";
const SETTLE_MS = 5_000;

/** What both use with pods that nobody asks, and then with pods that are asked, each at the same time. */
export async function measureProbing(subjects: Subjects, effort: ProbeEffort): Promise<Both<Probing>> {
  const { members, say } = subjects;
  const doors = { kubelet: await openDoor(), berth: await openDoor() };
  try {
    say(`${PROBES} pods that nobody asks, ${effort.unaskedMs / 1000} s`);
    const before = await withPods(subjects, undefined, () => usageWithin(members, effort.unaskedMs));
    say(`${PROBES} TCP probes a second, ${effort.askedMs / 1000} s`);
    return await withPods(subjects, doors, async () => {
      const counted = countOf(doors);
      const after = await usageWithin(members, effort.askedMs);
      const now = countOf(doors);
      const probingOf = (which: keyof Both<unknown>): Probing => ({
        unasked: before[which],
        asked: after[which],
        probes: now[which] - counted[which],
      });
      return { kubelet: probingOf("kubelet"), berth: probingOf("berth") };
    });
  } finally {
    await Promise.all([doors.kubelet.close(), doors.berth.close()]);
  }
}

const countOf = ({ kubelet, berth }: Both<Door>): Both<number> => ({ kubelet: kubelet.count, berth: berth.count });

/** Works while each of the two runs so many pods, that are asked at its door if there are doors. */
async function withPods<T>(subjects: Subjects, doors: Both<Door> | undefined, work: () => Promise<T>): Promise<T> {
  const { members } = subjects;
  const podsOf = { kubelet: subjects.names(PROBES), berth: subjects.names(PROBES) };
  const start = (which: keyof Both<unknown>) => {
    const tcpSocket = { host, port: doors?.[which].port ?? 0 };
    const probes = doors === undefined ? {} : { readinessProbe: { tcpSocket, periodSeconds: 1 } };
    return startPods(subjects, members[which], podsOf[which], { containers: [askedContainer(probes)] });
  };
  await Promise.all([start("kubelet"), start("berth")]);
  await pause(SETTLE_MS);
  const result = await work();
  await Promise.all([deletePods(subjects, podsOf.kubelet), deletePods(subjects, podsOf.berth)]);
  return result;
}

/** What both use in so much time, at the same time. */
export async function usageWithin({ kubelet, berth }: Both<Member>, ms: number): Promise<Both<Usage>> {
  const read = () => Promise.all([usageOf(kubelet.pid), usageOf(berth.pid)]);
  const from = performance.now();
  const before = await read();
  await pause(ms);
  const after = await read();
  const lastedMs = performance.now() - from;
  const of = (at: 0 | 1): Usage => ({ lastedMs, cpuMs: after[at].cpuMs - before[at].cpuMs });
  return { kubelet: of(0), berth: of(1) };
}

/** One pod each, asked every second, which becomes ready and unready in turns. */
export async function measureReadiness(subjects: Subjects, effort: ProbeEffort): Promise<ReadinessChanges> {
  const { members, watch, names, say } = subjects;
  say(`a probe's answer → the pod's readiness, ${effort.turns} times each`);
  const answerer = await startAnswerer();
  try {
    const podOf = new Map([members.kubelet, members.berth].map((member) => [member, names(1)[0] ?? ""]));
    for (const [member, name] of podOf) {
      const httpGet = { host, port: answerer.port, path: `/${name}` };
      const readinessProbe = { httpGet, periodSeconds: 1, failureThreshold: 1 };
      const ready = startPods(subjects, member, [name], { containers: [askedContainer({ readinessProbe })] });
      await Promise.all([ready, answerer.turn(name, true)]);
    }
    const [floorPod = ""] = names(1);
    await subjects.api.create(podsPath, unboundPod(floorPod));
    const floor: number[] = [];
    const agents = await inTurns(members, effort.turns, async (member, turn) => {
      const isReady = turn % 2 === 1;
      const milestone = isReady ? "ready" : "unready";
      if (member === members.kubelet) {
        const shown = watch.pod(floorPod, milestone);
        const sentAt = Date.now();
        await subjects.api.patch(`${podsPath}/${floorPod}/status`, readyStatus(isReady));
        floor.push((await shown) - sentAt);
      }
      const name = podOf.get(member) ?? "";
      const [seen, answered] = await Promise.all([watch.pod(name, milestone), answerer.turn(name, isReady)]);
      return seen - answered;
    });
    return { agents, floor };
  } finally {
    await answerer.close();
  }
}

const readyStatus = (isReady: boolean) => ({
  status: { conditions: [{ type: "Ready", status: isReady ? "True" : "False" }] },
});

/** Nobody takes it: its status is whatever is said of it. */
function unboundPod(name: string) {
  const pod = benchPod(name);
  return { ...pod, spec: { ...pod.spec, schedulerName: "nobody", automountServiceAccountToken: false } };
}

function askedContainer(probes: Pick<Container, "readinessProbe">): Container {
  const [container] = benchPod("").spec.containers;
  if (container === undefined) throw new Error("the pod of the bench has no container");
  return { ...container, ...probes };
}
