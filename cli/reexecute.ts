import { messageOf } from "../host/error-message.ts";

/**
 * Settings of Bun that take effect only if they are in the environment at the start. UV_THREADPOOL_SIZE: the default is
 * one thread per CPU, so on two CPUs two file operations that hang in the kernel would block all others.
 * BUN_CONFIG_MAX_HTTP_REQUESTS: raises the number of `fetch` requests that may run at once from 256, so that requests
 * that hang do not delay others. MIMALLOC_PURGE_HOLES_MIN_INTERVAL: the allocator returns memory to the kernel every two seconds instead of ten times
 * a second; while pods start the memory is needed again at once, and the scans cost a few percent of CPU.
 * BUN_GC_TIMER_DISABLE: no collection once a second for half a minute after each change of the heap. That took more CPU than all else an idle agent
 * does, and a tenth of what starts take. JavaScriptCore still collects by what is allocated, and `createReleaseMemory` when the agent falls idle.
 * @internal
 */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  UV_THREADPOOL_SIZE: "8",
  BUN_CONFIG_MAX_HTTP_REQUESTS: "4096",
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: "2000",
  BUN_GC_TIMER_DISABLE: "1",
};

/** Variables that could make this program run foreign code. */
const UNSAFE_VARIABLES = ["BUN_OPTIONS", "BUN_BE_BUN", "NODE_OPTIONS"];

/**
 * Re-executes this program with the settings, under the same pid; returns if they are set already. Costs 4 ms. If the
 * kernel refuses it, as in an emulator or a sandbox, the program goes on without them: returns a warning.
 */
export function reexecute(): string | undefined {
  const { env } = process;
  const isSet = Object.entries(ENVIRONMENT).every(([name]) => env[name] !== undefined);
  // A run from source has no binary to execute.
  const isCompiled = import.meta.path.startsWith("/$bunfs/");
  if (isSet || !isCompiled) return undefined;
  const clean = Object.fromEntries(Object.entries(env).filter(([name]) => !UNSAFE_VARIABLES.includes(name)));
  try {
    process.execve?.("/proc/self/exe", [process.argv0, ...process.argv.slice(2)], { ...clean, ...ENVIRONMENT });
    return undefined;
  } catch (error) {
    const settings = Object.entries(ENVIRONMENT).map(([name, value]) => `${name}=${value}`);
    return `this program cannot execute itself again (${messageOf(error)}) and goes on without ${settings.join(" ")}; set them in its environment`;
  }
}
