import { orAborted } from "../../../../host/async/abort.ts";
import { createTtlCache } from "../../../../host/async/ttl-cache.ts";
import type { Clock } from "../../../../host/clock.ts";
import { ApiError } from "../api-error.ts";

export interface ReviewCacheOptions<Q, V> {
  readonly maxEntries: number;
  readonly clock: Pick<Clock, "now">;
  /** Answers a question. An error is not kept. The signal aborts when no request waits for the answer any more. */
  readonly ask: (question: Q, signal: AbortSignal) => Promise<V>;
  /** How long an answer is kept, in milliseconds; 0 for not at all. */
  readonly ttlMs: (answer: V) => number;
}

/** The API server's answers by question. Requests that ask the same at the same time share one question. */
export interface ReviewCache<Q, V> {
  /** Rejects as `ask` does, with the signal's reason, or with `ApiError` 429 if too many questions have no answer yet. */
  get(key: string, question: Q, signal: AbortSignal): Promise<V>;
}

/** Any client may ask. Known answers need no place. */
const MAX_QUESTIONS = 100;

interface Question<V> {
  readonly answer: Promise<V>;
  readonly left: AbortController;
  waiters: number;
}

/** A question ends with the last request that waits for it, so that clients that go away leave nothing to ask. */
export function createReviewCache<Q, V>(options: ReviewCacheOptions<Q, V>): ReviewCache<Q, V> {
  const { ask, ttlMs } = options;
  const answers = createTtlCache<{ readonly answer: V }>(options);
  const asked = new Map<string, Question<V>>();

  function askFirst(key: string, text: Q): Question<V> {
    if (asked.size >= MAX_QUESTIONS) throw new ApiError(429, TOO_MANY);
    const left = new AbortController();
    const question = { answer: ask(text, left.signal), left, waiters: 0 };
    asked.set(key, question);
    return question;
  }

  function forget(key: string, question: Question<V>): void {
    if (asked.get(key) === question) asked.delete(key);
  }

  return {
    async get(key, text, signal) {
      const known = answers.get(key);
      if (known !== undefined) return known.answer;
      const question = asked.get(key) ?? askFirst(key, text);
      question.waiters++;
      try {
        const answer = await orAborted(question.answer, signal);
        answers.set(key, { answer }, ttlMs(answer));
        return answer;
      } finally {
        question.waiters--;
        if (question.waiters === 0) {
          forget(key, question);
          question.left.abort(new Error("no request waits for this review any more"));
        }
      }
    },
  };
}

const TOO_MANY = "too many requests wait until the API server has reviewed their credentials: try again later";
