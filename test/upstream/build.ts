// Builds the upstream programs into the cache unless it has them already: bun test/upstream/build.ts
import { ensurePrograms } from "./programs.ts";

try {
  console.log(await ensurePrograms(undefined, console.log));
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
