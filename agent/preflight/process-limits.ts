import { FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import type { ProcessLimits } from "../../host/process-limits.ts";
import type { Config } from "../config/config.ts";

/**
 * Gives the agent the OOM score and the number of open files that are configured. Where the kernel refuses, as in a
 * container without CAP_SYS_RESOURCE, the agent keeps what it has and warns, as the kubelet does.
 */
export function applyProcessLimits(
  { oomScoreAdj, maxOpenFiles }: Pick<Config, "oomScoreAdj" | "maxOpenFiles">,
  limits: ProcessLimits,
  log: Log,
): void {
  const settings = [
    { setting: "oomScoreAdj", value: oomScoreAdj, apply: limits.setOomScoreAdj },
    { setting: "maxOpenFiles", value: maxOpenFiles, apply: limits.setMaxOpenFiles },
  ];
  for (const { setting, value, apply } of settings)
    try {
      apply(value);
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      log.warn(
        { [setting]: value, error: error.message },
        `cannot apply ${setting}; the agent keeps what it was started with`,
      );
    }
}
