import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import type { Subject } from "../measure-rounds.ts";
import type { MeasuredRuntime } from "../measured-runtime.ts";

export type FloorOrder =
  | {
      readonly verb: "start";
      readonly names: readonly string[];
      readonly atOnce: number;
      readonly hostNetwork: boolean;
    }
  | { readonly verb: "removeAll"; readonly atOnce: number; readonly isForced: boolean };

export type FloorResponse =
  | { readonly asked: readonly (readonly [string, number])[]; readonly problem?: never }
  | { readonly asked?: never; readonly problem: string };

export interface FloorOptions {
  /** Its pods have the network of the host. */
  readonly hostNetwork?: boolean;
  /** It removes sandboxes without stopping their containers before: what a deletion with grace 0 needs. */
  readonly isForced?: boolean;
}

export interface Floor {
  /** The floor as a subject that handles this many pods in parallel. */
  atOnce(count: number, options?: FloorOptions): Subject;
  stop(): Promise<void>;
}

export function startFloor(runtime: MeasuredRuntime, stateDir: string): Floor {
  const child = fork(join(import.meta.dirname, "raw-cri-floor-process.ts"), [runtime.containerd.endpoint, stateDir]);
  return {
    atOnce: (atOnce, { hostNetwork = false, isForced = false } = {}) => ({
      runtime,
      start: (names) => sendOrder(child, { verb: "start", names, atOnce, hostNetwork }),
      removeAll: () => sendOrder(child, { verb: "removeAll", atOnce, isForced }),
      // The response to an order arrives when all its work is done.
      settled: async () => undefined,
    }),
    async stop() {
      const exited = new Promise((resolve) => child.once("exit", resolve));
      child.disconnect();
      await exited;
    },
  };
}

/** Sends an order and awaits its response. Orders must not overlap. */
async function sendOrder(child: ChildProcess, order: FloorOrder): Promise<ReadonlyMap<string, number>> {
  const response = await new Promise<FloorResponse>((resolve, reject) => {
    const ended = () => reject(new Error("the floor's process has ended"));
    child.once("exit", ended);
    child.once("message", (message) => {
      child.off("exit", ended);
      resolve(message as FloorResponse);
    });
    child.send(order);
  });
  if (response.problem !== undefined) throw new Error(`the floor: ${response.problem}`);
  return new Map(response.asked);
}
