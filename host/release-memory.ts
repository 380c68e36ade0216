import { releaseProgramPages } from "./release-program-pages.ts";

/**
 * Creates a function that returns unused memory to the kernel by a full garbage collection (about 15 ms of CPU). Its
 * first call, after the start, also releases pages of the program; later calls do not, since the next pod start would
 * need those pages again.
 */
export function createReleaseMemory(): () => void {
  let hasReleasedProgram = false;
  return () => {
    Bun.gc(true);
    Bun.shrink();
    if (!hasReleasedProgram) releaseProgramPages();
    hasReleasedProgram = true;
  };
}
