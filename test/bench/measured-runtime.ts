import { mkdir } from "node:fs/promises";
import { createRuntime } from "../../cri/client.ts";
import type { Runtime } from "../../cri/runtime.ts";
import { createClock } from "../../host/clock.ts";
import { createLog } from "../../host/log.ts";
import type { ContainerId } from "../../proto/ids.ts";
import { podNameLabel } from "../../proto/kubernetes/well-known-names.ts";
import { type Containerd, type ContainerdVersion, startContainerd } from "../bed/containerd/containerd.ts";
import { importImages } from "../bed/images/images.ts";
import { type ContainerEvents, followContainers } from "./containerd-events.ts";

/** One pod as the runtime has it. */
export interface RunningPod {
  readonly name: string;
  readonly sandboxId: string;
  readonly containerId: string;
  /** When its last container was started, by the runtime's own word, in milliseconds since the epoch. */
  readonly runningAt: number;
}

/** A private containerd with the test images, and the means to see what happens in it. */
export interface MeasuredRuntime {
  readonly containerd: Containerd;
  readonly events: ContainerEvents;
  /** All pods, whoever made them. Throws if a container does not run. */
  pods(): Promise<readonly RunningPod[]>;
  stop(): Promise<void>;
}

/** A client that says nothing and waits for two minutes at most. */
export function connectRuntime(endpoint: string) {
  const log = createLog({ format: "json", level: "error", write: () => undefined });
  return createRuntime({ endpoint, requestTimeoutMs: 120_000, clock: createClock(), log, random: Math.random });
}

export async function startMeasuredRuntime(version: ContainerdVersion, stateDir: string): Promise<MeasuredRuntime> {
  await mkdir(stateDir, { recursive: true });
  const containerd = await startContainerd({ version, stateDir, say: console.log });
  try {
    await importImages(containerd);
    const runtime = connectRuntime(containerd.endpoint);
    const events = await followContainers(containerd.endpoint, async () => {
      await containerd.ctr(["namespaces", "create", "heard"]);
      await containerd.ctr(["namespaces", "remove", "heard"]);
    });
    return {
      containerd,
      events,
      pods: () => listPods(runtime),
      async stop() {
        events.stop();
        runtime.close();
        await containerd.stop();
      },
    };
  } catch (error) {
    await containerd.stop();
    throw error;
  }
}

async function listPods(runtime: Pick<Runtime, "listContainers" | "containerStatus">): Promise<readonly RunningPod[]> {
  const containers = await runtime.listContainers({});
  return await Promise.all(
    containers.map(async ({ id, podSandboxId, labels }) => {
      const { startedAt } = await runtime.containerStatus(id as ContainerId);
      if (startedAt === 0n) throw new Error(`container ${id} was not started`);
      const runningAt = Number(startedAt / 1000n) / 1000;
      return { name: labels[podNameLabel] ?? "", sandboxId: podSandboxId, containerId: id, runningAt };
    }),
  );
}
