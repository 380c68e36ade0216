// Builds the upstream programs into the cache unless they are there: bun test/upstream/build.ts
import { findPrograms } from "./programs.ts";

try {
  console.log(await findPrograms(undefined, console.log));
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
