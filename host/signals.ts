const TERMINATION_SIGNALS = ["SIGTERM", "SIGINT"] as const;
/** They would end the process: their default action. */
const UNUSED_SIGNALS = ["SIGUSR1", "SIGUSR2"] as const;

/** Of a process that ends by a signal: 128 and its number. */
export const EXIT_CODES = { SIGTERM: 143, SIGINT: 130, SIGHUP: 129 } as const;

export interface SignalOptions {
  /** SIGHUP terminates a process of a terminal that is closed. A daemon ignores it. */
  readonly hasTerminal: boolean;
  /** Called with the name of the first termination signal. A second one exits at once. */
  readonly onTermination: (signal: string) => void;
  /** Called with the name of each signal that has no effect. */
  readonly onIgnored: (signal: string) => void;
}

/** Handles the termination signals, and ignores those that have no meaning for the agent. */
export function handleSignals({ hasTerminal, onTermination, onIgnored }: SignalOptions): void {
  let isTerminating = false;
  for (const signal of [...TERMINATION_SIGNALS, ...(hasTerminal ? (["SIGHUP"] as const) : [])])
    process.on(signal, () => {
      if (isTerminating) process.exit(EXIT_CODES[signal]);
      isTerminating = true;
      onTermination(signal);
    });
  for (const signal of [...UNUSED_SIGNALS, ...(hasTerminal ? [] : (["SIGHUP"] as const))])
    process.on(signal, () => onIgnored(signal));
}
