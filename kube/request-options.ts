import type { PriorityLevel } from "./transport/connection.ts";

/** Options of every API call: deadline, cancellation and flow control. */
export interface RequestOptions {
  /** 30 s if left out; of a list, for each page. */
  readonly deadlineMs?: number;
  readonly signal?: AbortSignal;
  /** `main` if left out. */
  readonly priorityLevel?: PriorityLevel;
  /** Called whenever flow control admits a request: whether this one goes before those that have waited longer. */
  readonly isUrgent?: () => boolean;
}

/** Options of the read of one object. */
export interface GetOptions extends RequestOptions {
  /** The API server may answer from its cache (`resourceVersion=0`), which may be behind. */
  readonly isFromCache?: boolean;
}

export const DEFAULT_DEADLINE_MS = 30_000;
