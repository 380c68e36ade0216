const ENDING = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/** Calls back once, with its name, at the first signal that asks the process to end. A second one ends it at once. */
export function onTermination(ended: (signal: string) => void): void {
  let isEnding = false;
  for (const signal of ENDING)
    process.on(signal, () => {
      if (isEnding) process.exit(128 + { SIGTERM: 15, SIGINT: 2, SIGHUP: 1 }[signal]);
      isEnding = true;
      ended(signal);
    });
}
