/**
 * Knobs of the engine that count only when they stand in the environment from the start. Without the first, two file operations
 * that hang in the kernel would stop all others: the pool has as many threads as the machine has CPUs. With the last, the allocator
 * looks every two seconds for memory that the machine could have back, where it does so ten times a second: while pods start that
 * memory is needed again at once, and all that looking is some percent of their CPU.
 */
const KNOBS: Readonly<Record<string, string>> = {
  UV_THREADPOOL_SIZE: "8",
  BUN_CONFIG_MAX_HTTP_REQUESTS: "4096",
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: "2000",
};

/** What would make this program run other code than its own. */
const HARMFUL = ["BUN_OPTIONS", "BUN_BE_BUN", "NODE_OPTIONS"];

/** Starts this very program again, under its own pid, with the knobs set; returns when they are. Costs 4 ms. */
export function reexecute(): void {
  const { env } = process;
  const isSet = Object.entries(KNOBS).every(([name]) => env[name] !== undefined);
  // From source there is no program of ours to start again.
  const isCompiled = import.meta.path.startsWith("/$bunfs/");
  if (isSet || !isCompiled) return;
  const clean = Object.fromEntries(Object.entries(env).filter(([name]) => !HARMFUL.includes(name)));
  process.execve?.("/proc/self/exe", [process.argv0, ...process.argv.slice(2)], { ...clean, ...KNOBS });
}
