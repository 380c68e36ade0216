import { orAborted } from "../../../../host/async/abort.ts";
import { createTtlCache } from "../../../../host/async/ttl-cache.ts";
import type { Clock } from "../../../../host/clock.ts";

export interface ReviewCacheOptions<Q, V> {
  readonly maxEntries: number;
  readonly clock: Pick<Clock, "now">;
  /** Answers a question. An error is not kept. */
  readonly ask: (question: Q) => Promise<V>;
  /** How long an answer is kept, in milliseconds; 0 for not at all. */
  readonly ttlMs: (answer: V) => number;
}

/** The API server's answers by question. Requests that ask the same at the same time share one question. */
export interface ReviewCache<Q, V> {
  get(key: string, question: Q, signal: AbortSignal): Promise<V>;
}

/** A question ends only by its own deadline: others may wait for it when the request that asked first is gone. */
export function createReviewCache<Q, V>(options: ReviewCacheOptions<Q, V>): ReviewCache<Q, V> {
  const { ask, ttlMs } = options;
  const answers = createTtlCache<{ readonly answer: V }>(options);
  const asked = new Map<string, Promise<V>>();

  async function askOnce(key: string, question: Q): Promise<V> {
    try {
      const answer = await ask(question);
      answers.set(key, { answer }, ttlMs(answer));
      return answer;
    } finally {
      asked.delete(key);
    }
  }

  return {
    async get(key, question, signal) {
      const known = answers.get(key);
      if (known !== undefined) return known.answer;
      const pending = asked.get(key) ?? askOnce(key, question);
      asked.set(key, pending);
      return await orAborted(pending, signal);
    },
  };
}
