/**
 * Where a pod is in its life:
 *
 *   syncing ──► terminating ──► terminated     it ended by itself; its dead containers are kept for their logs
 *                    │               │
 *                    ├───────────────┴──► finished   nobody wants it any more, and nothing of it is left on the node
 *                    ▼
 *                finished
 *
 * There is no way back to the left: a termination is never withdrawn, an outcome never forgotten.
 */
export type Stage = "syncing" | "terminating" | "terminated" | "finished";
