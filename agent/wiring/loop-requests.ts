import { createEventSource } from "../../host/async/event-source.ts";
import type { Loop } from "../loop/loop.ts";

type RequestTarget = Pick<Loop, "wake" | "cancelOutdated" | "retryAfterOutage" | "onReferenceChanged">;

/**
 * The requests to the sync loop. The components that make them are built first, and the loop, which needs all of them,
 * last: a request before `connect` is lost.
 */
export interface LoopRequests extends RequestTarget {
  /** Passes every further request to the loop. */
  connect(loop: RequestTarget): void;
}

export function createLoopRequests(): LoopRequests {
  const requests = createEventSource<[request: (loop: RequestTarget) => void]>();
  return {
    wake: (uid) => requests.emit((loop) => loop.wake(uid)),
    cancelOutdated: (uid) => requests.emit((loop) => loop.cancelOutdated(uid)),
    retryAfterOutage: () => requests.emit((loop) => loop.retryAfterOutage()),
    onReferenceChanged: (uid, key) => requests.emit((loop) => loop.onReferenceChanged(uid, key)),
    connect: (loop) => requests.subscribe((request) => request(loop)),
  };
}
