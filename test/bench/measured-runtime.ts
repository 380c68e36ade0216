import { mkdir } from "node:fs/promises";
import { createRuntime } from "../../cri/client.ts";
import type { Runtime } from "../../cri/runtime.ts";
import { createClock } from "../../host/clock.ts";
import { createLog } from "../../host/log/log.ts";
import type { ContainerId } from "../../proto/ids.ts";
import { podNameLabel } from "../../proto/kubernetes/well-known-names.ts";
import {
  type Containerd,
  type ContainerdOptions,
  type ContainerdVersion,
  startContainerd,
} from "../bed/containerd/containerd.ts";
import { importImages } from "../bed/images/images.ts";
import { type ContainerdEvents, subscribeToContainerd } from "./containerd-events.ts";

/** One pod with a running container, as the runtime reports it. */
export interface RunningPod {
  readonly name: string;
  readonly sandboxId: string;
  readonly containerId: string;
  /** The start time of its container, as the runtime reports it, in milliseconds since the epoch. */
  readonly runningAt: number;
}

/** A private containerd with the test images, its events and its pods. */
export interface MeasuredRuntime {
  readonly containerd: Containerd;
  readonly events: ContainerdEvents;
  /** All pods of the runtime. Throws if a container was never started. */
  pods(): Promise<readonly RunningPod[]>;
  stop(): Promise<void>;
}

/** A client without a log and with a timeout of two minutes. */
export async function connectRuntime(endpoint: string) {
  const log = await createLog({ format: "json", level: "error", write: () => undefined });
  return createRuntime({ endpoint, requestTimeoutMs: 120_000, clock: createClock(), log, random: Math.random });
}

export async function startMeasuredRuntime(
  version: ContainerdVersion,
  stateDir: string,
  more: Pick<ContainerdOptions, "cniBinDir"> = {},
): Promise<MeasuredRuntime> {
  await mkdir(stateDir, { recursive: true });
  const containerd = await startContainerd({ version, stateDir, print: console.log, ...more });
  try {
    await importImages(containerd);
    const runtime = await connectRuntime(containerd.endpoint);
    const events = await subscribeToContainerd(containerd.endpoint, async () => {
      await containerd.ctr(["namespaces", "create", "subscription-test"]);
      await containerd.ctr(["namespaces", "remove", "subscription-test"]);
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
