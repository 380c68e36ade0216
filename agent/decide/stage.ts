/**
 * Where a pod is in its life:
 *
 *      it is deleted, its manifest is gone or another one, nobody knows it,
 *      its containers are done, its deadline has passed, it was rejected
 *          │
 *   syncing ──► terminating ──► terminated     it ended by itself; its dead containers are kept for their logs
 *                    │               │
 *                    ├───────────────┴──► finished   nobody wants it any more, and nothing of it is left on the node
 *                    ▼
 *                finished
 *
 * There is no way back to the left: a termination is never withdrawn, an outcome never forgotten. A pod that is asked for again
 * meanwhile, under the same uid, waits for the end of that life, and then begins another one.
 */
export type Stage = "syncing" | "terminating" | "terminated" | "finished";
