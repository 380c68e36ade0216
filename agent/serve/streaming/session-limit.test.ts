import { expect, test } from "bun:test";
import { createIdleTimer } from "../../../host/async/idle-timer.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { withBursts } from "../api/request-bursts.ts";
import { createSessionLimit } from "./session-limit.ts";

/** The agent's idle timer, touched by sessions and by bursts of requests; `released` are the times at which it has fired. */
function createFixture() {
  const clock = new FakeClock();
  const released: number[] = [];
  const { touch } = createIdleTimer(clock, 5_000, () => released.push(clock.elapsedMs));
  const limit = createSessionLimit(512, touch);
  const onRequest = withBursts(() => () => {}, touch);
  /** Starts sessions; the results end one each. */
  const startSessions = (count: number) =>
    Array.from({ length: count }, () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      void limit.run(() => promise);
      return async () => {
        resolve();
        await settlePromises();
      };
    });
  const answerRequests = (count: number) => {
    for (let request = 0; request < count; request++) onRequest("GET", "/pods")();
  };
  return { clock, released, startSessions, answerRequests };
}
type Fixture = ReturnType<typeof createFixture>;

const rows: readonly (readonly [
  sentence: string,
  act: (fixture: Fixture) => Promise<void>,
  released: readonly number[],
])[] = [
  [
    "once, five seconds after the last of many sessions",
    async ({ clock, startSessions }) => {
      for (const end of startSessions(200)) {
        await clock.advance(10);
        await end();
      }
    },
    [7_000],
  ],
  [
    "also while another session goes on",
    async ({ startSessions }) => {
      const [first] = startSessions(2);
      await first?.();
    },
    [5_000],
  ],
  ["not while sessions run, however long", async ({ startSessions }) => void startSessions(3), []],
  ["after a burst of requests", async ({ answerRequests }) => answerRequests(150), [5_000]],
  [
    "not for each of the few pages that are scraped every fifteen seconds",
    async ({ clock, answerRequests }) => {
      for (let scrape = 0; scrape < 25; scrape++) {
        answerRequests(5);
        await clock.advance(15_000);
      }
    },
    [290_000],
  ],
];
for (const [sentence, act, expected] of rows)
  test(`memory is released ${sentence}`, async () => {
    const fixture = createFixture();
    await act(fixture);
    await fixture.clock.advance(3_600_000);
    expect(fixture.released).toEqual([...expected]);
    expect(fixture.clock.pendingTimers).toBe(0);
  });
