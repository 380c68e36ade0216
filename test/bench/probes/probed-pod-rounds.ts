import { setTimeout as pause } from "node:timers/promises";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { benchPod } from "../bench-pod.ts";
import { type Both, type ClusterSubjects, deletePods, startPods } from "../cluster/cluster-rounds.ts";
import type { Member } from "../cluster/compared-node.ts";
import { BATCH } from "../floor/floor-rounds.ts";
import type { Round } from "../measure-rounds.ts";
import { type Memory, memoryOf, usageOf } from "../process-usage.ts";
import { type Usage, usageWithin } from "./probe-rounds.ts";
import { openDoor } from "./probe-targets.ts";

/** Pods at once whose containers have what a careful manifest gives them: two probes, and a hook at each end. */
export interface Equipped {
  readonly ready: Round;
  readonly gone: Round;
  /** Of the agent, until a second after the last pod was Ready. */
  readonly startCpuMs: number;
  /** What it uses while nothing happens but the probes. */
  readonly rest: Usage;
  readonly memory: Memory;
}

type Subjects = Pick<ClusterSubjects, "api" | "watch" | "members" | "names" | "say">;

const AFTER_START_MS = 1_000;
const SETTLE_MS = 10_000;

/** Both start and delete such pods in turn, and have them for so long at the same time. */
export async function measureEquipped(subjects: Subjects, restMs: number): Promise<Both<Equipped>> {
  const { members, names, say } = subjects;
  const { kubelet, berth } = members;
  const door = await openDoor();
  try {
    say(`${BATCH} pods at once with probes and hooks, and ${restMs / 1000} s with them`);
    const more = { containers: [equippedContainer(door.port)] };
    const start = async (member: Member) => {
      const pods = names(BATCH);
      const before = await usageOf(member.pid);
      const ready = await startPods(subjects, member, pods, more);
      await pause(AFTER_START_MS);
      return { pods, ready, startCpuMs: (await usageOf(member.pid)).cpuMs - before.cpuMs };
    };
    const started = { kubelet: await start(kubelet), berth: await start(berth) };
    await pause(SETTLE_MS);
    const rest = await usageWithin(members, restMs);
    const end = async (which: keyof Both<unknown>): Promise<Equipped> => {
      const { pods, ...begun } = started[which];
      const memory = await memoryOf(members[which].pid);
      return { ...begun, rest: rest[which], memory, gone: await deletePods(subjects, pods) };
    };
    return { kubelet: await end("kubelet"), berth: await end("berth") };
  } finally {
    await door.close();
  }
}

/** The probes' periods are those that Kubernetes gives; they ask the node's own address, so that no network of pods is in the way. */
function equippedContainer(port: number): Container {
  const [container] = benchPod("").spec.containers;
  if (container === undefined) throw new Error("the pod of the bench has no container");
  const probe = { tcpSocket: { host: "127.0.0.1", port }, periodSeconds: 10 };
  const hook = { exec: { command: ["true"] } };
  return { ...container, readinessProbe: probe, livenessProbe: probe, lifecycle: { postStart: hook, preStop: hook } };
}
