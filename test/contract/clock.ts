import { beforeEach, describe, expect, test } from "bun:test";
import type { Clock } from "../../host/clock.ts";
import { pollUntil } from "../bed/poll-until.ts";

interface ClockFixture {
  readonly clock: Clock;
  /** Resolves when this much time has passed on the clock. */
  readonly advance: (ms: number) => Promise<void>;
}

/**
 * The contract of `Clock`, for the machine's clock and the fake. Wakes are at least 20 ms apart, since a machine may
 * fire closer ones late.
 */
export function clockContract(name: string, make: () => ClockFixture): void {
  describe(`clock: ${name}`, () => {
    let fixture: ClockFixture;
    let startedAt: number;
    let fired: string[];
    beforeEach(() => {
      fixture = make();
      startedAt = fixture.clock.now();
      fired = [];
    });
    /**
     * Sets a wake relative to the start of the test, so that the order holds even if the machine stalls between two
     * calls.
     */
    const wakeIn = (ms: number, label: string, onWake = () => {}) =>
      fixture.clock.wakeAt(startedAt + ms, () => {
        fired.push(label);
        onWake();
      });
    /** Waits longer if needed: after a stall of the machine a wake that was set within a wake may be late. */
    const advanceUntil = async (ms: number, wakes: number) => {
      await fixture.advance(ms);
      await pollUntil(`${wakes} wakes`, 5_000, () => fired.length >= wakes);
    };

    test("now() advances with the time that passes", async () => {
      const before = fixture.clock.now();
      await fixture.advance(20);
      expect(fixture.clock.now()).toBeGreaterThanOrEqual(before + 20);
    });

    test("wakes fire once each, in the order of their times, not of the calls", async () => {
      wakeIn(60, "third");
      wakeIn(20, "first");
      wakeIn(40, "second");
      await fixture.advance(100);
      expect(fired).toEqual(["first", "second", "third"]);
    });

    test("a wake never fires before its time", async () => {
      const at = fixture.clock.now() + 30;
      const { promise, resolve } = Promise.withResolvers<number>();
      fixture.clock.wakeAt(at, () => resolve(fixture.clock.now()));
      await fixture.advance(60);
      expect(await promise).toBeGreaterThanOrEqual(at);
    });

    test("wakes in the past fire at once after the call returns, in the order of the calls", async () => {
      wakeIn(-10, "a little late");
      wakeIn(-1_000_000, "very late");
      wakeIn(0, "now");
      expect(fired).toEqual([]);
      await fixture.advance(20);
      expect(fired).toEqual(["a little late", "very late", "now"]);
    });

    test("a cancelled wake does not fire; cancelling twice or too late does nothing", async () => {
      const cancel = wakeIn(20, "cancelled");
      const cancelLate = wakeIn(20, "in time");
      cancel();
      cancel();
      await fixture.advance(60);
      cancelLate();
      expect(fired).toEqual(["in time"]);
    });

    test("a wake can cancel a later one", async () => {
      const later = wakeIn(40, "later");
      wakeIn(20, "first", () => later());
      await fixture.advance(80);
      expect(fired).toEqual(["first"]);
    });

    test("a wake can set another one, which fires at its own time", async () => {
      wakeIn(20, "first", () => wakeIn(60, "third"));
      wakeIn(40, "second");
      await advanceUntil(100, 3);
      expect(fired).toEqual(["first", "second", "third"]);
    });

    test("a wake set for now within another one fires after that one returns", async () => {
      wakeIn(20, "first", () => {
        wakeIn(0, "second");
        fired.push("first has ended");
      });
      await advanceUntil(60, 3);
      expect(fired).toEqual(["first", "first has ended", "second"]);
    });
  });
}
