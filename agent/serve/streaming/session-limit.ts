import { ApiError } from "../api/api-error.ts";

/**
 * How many sessions of exec, attach, port-forward and run there are at once. Each holds two connections, and up to some
 * hundred kilobytes that a slow side has not taken, or the output of its command: a client that opens sessions without end
 * must not take the memory of the agent. The kubelet has no limit; people and probes on a node need a few dozen.
 */
export const MAX_SESSIONS = 512;

/** Runs no more sessions at once than a limit. */
export interface SessionLimit {
  /** Settles as `session` does. Rejects with `ApiError` 429 instead of a call if too many run. */
  run<T>(session: () => Promise<T>): Promise<T>;
}

/** `onEnd` is called at the end of each session that was run. */
export function createSessionLimit(maxSessions: number, onEnd: () => void): SessionLimit {
  let running = 0;
  return {
    async run(session) {
      if (running >= maxSessions) throw new ApiError(429, tooMany(maxSessions));
      running++;
      try {
        return await session();
      } finally {
        running--;
        onEnd();
      }
    },
  };
}

const tooMany = (maxSessions: number) =>
  `this node runs ${maxSessions} sessions of exec, attach, run and port-forward, and allows no more at once: end one, or try again later`;
