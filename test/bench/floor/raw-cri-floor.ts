import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import type { Subject } from "../measure-rounds.ts";
import type { MeasuredRuntime } from "../measured-runtime.ts";

export type FloorOrder =
  | { readonly verb: "start"; readonly names: readonly string[]; readonly atOnce: number }
  | { readonly verb: "removeAll"; readonly atOnce: number };

export type FloorAnswer =
  | { readonly asked: readonly (readonly [string, number])[]; readonly problem?: never }
  | { readonly asked?: never; readonly problem: string };

export interface Floor {
  /** The floor as a subject that works on so many pods at a time. */
  atOnce(count: number): Subject;
  stop(): Promise<void>;
}

export function startFloor(runtime: MeasuredRuntime, stateDir: string): Floor {
  const child = fork(join(import.meta.dirname, "floor-process.ts"), [runtime.containerd.endpoint, stateDir]);
  return {
    atOnce: (atOnce) => ({
      runtime,
      start: (names) => ask(child, { verb: "start", names, atOnce }),
      removeAll: () => ask(child, { verb: "removeAll", atOnce }),
      // The answer to an order comes when all of it is done.
      settled: async () => undefined,
    }),
    async stop() {
      const exited = new Promise((resolve) => child.once("exit", resolve));
      child.disconnect();
      await exited;
    },
  };
}

/** One order at a time. */
async function ask(child: ChildProcess, order: FloorOrder): Promise<ReadonlyMap<string, number>> {
  const answer = await new Promise<FloorAnswer>((resolve, reject) => {
    const ended = () => reject(new Error("the floor's process has ended"));
    child.once("exit", ended);
    child.once("message", (message) => {
      child.off("exit", ended);
      resolve(message as FloorAnswer);
    });
    child.send(order);
  });
  if (answer.problem !== undefined) throw new Error(`the floor: ${answer.problem}`);
  return new Map(answer.asked);
}
