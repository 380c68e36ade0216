import { expect, test } from "bun:test";
import { type TokenValidity, tokenExpiresAt, tokenRefreshAt, tokenRetryAt } from "./token-refresh.ts";

const seconds = 1_000;
const minutes = 60 * seconds;
const hours = 60 * minutes;
const requestedAt = Date.parse("2026-01-01T00:00:00Z");

const issued = (lifetimeMs: number, leftMs: number | undefined = lifetimeMs): TokenValidity => ({
  requestedAt,
  expirationTimestamp: requestedAt + leftMs,
  expirationSeconds: lifetimeMs / seconds,
});
const unreadable = (lifetimeMs: number): TokenValidity => ({ ...issued(lifetimeMs), expirationTimestamp: undefined });

/** Minutes after the request. */
const after = (at: number) => (at - requestedAt) / minutes;

const tokens: readonly [sentence: string, token: TokenValidity, refreshMinutes: number, expiryMinutes: number][] = [
  ["an hour", issued(1 * hours), 48, 60],
  ["ten minutes, the shortest lifetime", issued(10 * minutes), 8, 10],
  ["exactly the lifetime at which a fifth is left after a day", issued(30 * hours), 24 * 60, 30 * 60],
  ["a week: refreshed after a day", issued(7 * 24 * hours), 24 * 60, 7 * 24 * 60],
  ["an hour, of which a minute has passed on the way", issued(1 * hours, 59 * minutes), 47, 59],
  ["an hour, by a node whose clock is 45 minutes ahead", issued(1 * hours, 15 * minutes), 6, 15],
  ["an hour, by a node whose clock is three hours ahead", issued(1 * hours, -2 * hours), 48, 60],
  ["an hour, by a node whose clock is three hours behind", issued(1 * hours, 4 * hours), 48, 60],
  ["an hour, with an unreadable expiry", unreadable(1 * hours), 48, 60],
  ["an hour, with an expiry that is no number", { ...issued(1 * hours), expirationTimestamp: Number.NaN }, 48, 60],
  ["no lifetime at all", issued(0), 8, 10],
  ["a negative lifetime", issued(-1 * hours), 8, 10],
  ["a lifetime that is no number", { ...issued(1 * hours), expirationSeconds: Number.NaN }, 8, 10],
  ["an infinite lifetime", unreadable(Number.POSITIVE_INFINITY), 24 * 60, (2 ** 32 * seconds) / minutes],
];

for (const [sentence, token, refreshMinutes, expiryMinutes] of tokens)
  test(`a token of ${sentence} is refreshed after ${refreshMinutes} minutes`, () => {
    expect([after(tokenRefreshAt(token, 0)), after(tokenExpiresAt(token))]).toEqual([refreshMinutes, expiryMinutes]);
  });

test("the jitter moves a refresh at most 10 s earlier", () => {
  const jitterMs = [0, 0.5, 1].map((random) => 48 * minutes + requestedAt - tokenRefreshAt(issued(1 * hours), random));
  expect(jitterMs).toEqual([0, 5 * seconds, 10 * seconds]);
});

test("without a token, requests are repeated after half a second to two minutes", () => {
  const delays = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1_000].map(
    (failures) => (tokenRetryAt({ failedAt: requestedAt, failures, validUntil: undefined }) - requestedAt) / seconds,
  );
  expect(delays).toEqual([0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122, 122]);
});

test("for a new pod, requests are repeated after 100 to 400 ms", () => {
  const delays = [1, 2, 3, 4].map(
    (failures) =>
      tokenRetryAt({ failedAt: requestedAt, failures, validUntil: undefined, isPodNew: true }) - requestedAt,
  );
  expect(delays).toEqual([100, 200, 400, 400]);
});

/** The times of all requests that fail after the refresh is due until the token expires, in seconds. */
function failedRefreshes(lifetimeMs: number): readonly number[] {
  const validUntil = requestedAt + 0.2 * lifetimeMs;
  const times = [0];
  for (let failedAt = requestedAt; failedAt < validUntil; ) {
    failedAt = tokenRetryAt({ failedAt, failures: times.length, validUntil });
    times.push((failedAt - requestedAt) / seconds);
  }
  return times;
}

test("a failed refresh is repeated seldom while the token is valid, and once more when it expires", () => {
  expect(failedRefreshes(10 * minutes)).toEqual([0, 10, 30, 70, 120]);
  expect(failedRefreshes(1 * hours)).toEqual([0, 10, 30, 70, 150, 310, 610, 720]);
});

test("a retry waits as long as the server asks for, but not longer than the token is valid", () => {
  const failure = { failedAt: requestedAt, failures: 1, validUntil: undefined, retryAfterMs: 30 * seconds };
  const validUntil = requestedAt + 20 * seconds;
  expect([failure, { ...failure, validUntil }].map((each) => tokenRetryAt(each) - requestedAt)).toEqual([
    30 * seconds,
    20 * seconds,
  ]);
});
