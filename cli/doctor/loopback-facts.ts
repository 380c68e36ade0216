import { type FoundPlugin, findPlugin } from "../../cni/find-plugin.ts";
import type { Files } from "../../host/fs/files.ts";
import type { RuntimeAnswer } from "./runtime-facts.ts";

/** The plugin that a container runtime executes for `lo` of each pod. */
export interface LoopbackFacts {
  /** The runtime's own folders of plugins. */
  readonly binDirs: readonly string[];
  /** Undefined if it is in none of them. */
  readonly found: FoundPlugin | undefined;
  /** Whether the runtime can be configured to do without. */
  readonly isOptional: boolean;
}

/** Undefined if the runtime does without the plugin, or does not say. Rejects with `FilesError`. */
export async function readLoopbackFacts(
  files: Pick<Files, "stat">,
  answer: RuntimeAnswer,
): Promise<LoopbackFacts | undefined> {
  const { cni, loopback } = answer.isReachable ? answer.facts : {};
  if (cni === undefined || loopback?.by !== "plugin") return undefined;
  const { binDirs } = cni;
  return { binDirs, found: await findPlugin(files, binDirs, "loopback"), isOptional: loopback.isOptional };
}
