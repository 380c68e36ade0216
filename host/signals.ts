const TERMINATION_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/**
 * Calls `onSignal` with the name of the first termination signal (SIGTERM, SIGINT, SIGHUP). A second one exits at once.
 */
export function onTermination(onSignal: (signal: string) => void): void {
  let isTerminating = false;
  for (const signal of TERMINATION_SIGNALS)
    process.on(signal, () => {
      if (isTerminating) process.exit(128 + { SIGTERM: 15, SIGINT: 2, SIGHUP: 1 }[signal]);
      isTerminating = true;
      onSignal(signal);
    });
}
