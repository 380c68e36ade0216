import { CriError } from "../../../cri/error.ts";
import type { Runtime, SandboxProcess } from "../../../cri/runtime.ts";
import type { SandboxId } from "../../../proto/ids.ts";
import { RUNTIME_DEADLINE_MS } from "./container-index.ts";

/** The pause processes of sandboxes. Each is asked for once, as long as its sandbox runs. */
export interface SandboxProcesses {
  /** Those of these sandboxes, which run; others are forgotten. One that the runtime does not report is missing. Never rejects. */
  of(ids: readonly string[]): Promise<ReadonlyMap<string, SandboxProcess>>;
}

export function createSandboxProcesses(runtime: Pick<Runtime, "podSandboxProcess">): SandboxProcesses {
  const options = { deadlineMs: RUNTIME_DEADLINE_MS };
  let known: ReadonlyMap<string, SandboxProcess> = new Map();
  return {
    async of(ids) {
      const found = await Promise.all(
        ids.map(async (id) => {
          const process =
            known.get(id) ?? (await runtime.podSandboxProcess(id as SandboxId, options).catch(undefinedIfRefused));
          return process === undefined ? [] : [[id, process] as const];
        }),
      );
      known = new Map(found.flat());
      return known;
    },
  };
}

function undefinedIfRefused(error: unknown): undefined {
  // The sandbox has ended meanwhile, or the runtime is away: its process is asked for with the next page.
  if (error instanceof CriError) return undefined;
  throw error;
}
