import { beforeEach, describe, expect, test } from "bun:test";
import type { Clock } from "../../host/clock.ts";
import { until } from "../bed/poll-until.ts";

interface Bed {
  readonly clock: Clock;
  /** Resolves when so much time has passed on the clock. */
  readonly pass: (ms: number) => Promise<void>;
}

/** What every maker of `Clock` has to keep. Times lie 20 ms apart: what a machine does within one is its own affair. */
export function clockContract(name: string, make: () => Bed): void {
  describe(`clock: ${name}`, () => {
    let bed: Bed;
    let began: number;
    let woken: string[];
    beforeEach(() => {
      bed = make();
      began = bed.clock.now();
      woken = [];
    });
    /** Counted from the beginning of the test, so that the order stays where a machine stands still between two of them. */
    const wakeIn = (ms: number, who: string, andThen = () => {}) =>
      bed.clock.wakeAt(began + ms, () => {
        woken.push(who);
        andThen();
      });
    /** Of a machine that stood still what is asked for within a wake may come late. */
    const passUntil = async (ms: number, wakes: number) => {
      await bed.pass(ms);
      await until(`${wakes} wakes`, 5_000, () => woken.length >= wakes);
    };

    test("time goes on", async () => {
      const before = bed.clock.now();
      await bed.pass(20);
      expect(bed.clock.now()).toBeGreaterThanOrEqual(before + 20);
    });

    test("wakes come in the order of their times, whatever the order in which they were asked for, each once", async () => {
      wakeIn(60, "third");
      wakeIn(20, "first");
      wakeIn(40, "second");
      await bed.pass(100);
      expect(woken).toEqual(["first", "second", "third"]);
    });

    test("no wake comes before its time", async () => {
      const at = bed.clock.now() + 30;
      const { promise, resolve } = Promise.withResolvers<number>();
      bed.clock.wakeAt(at, () => resolve(bed.clock.now()));
      await bed.pass(60);
      expect(await promise).toBeGreaterThanOrEqual(at);
    });

    test("a time that has passed is now, after the call has returned; of several, in the order in which they were asked for", async () => {
      wakeIn(-10, "a little late");
      wakeIn(-1_000_000, "very late");
      wakeIn(0, "now");
      expect(woken).toEqual([]);
      await bed.pass(20);
      expect(woken).toEqual(["a little late", "very late", "now"]);
    });

    test("a wake that was taken back does not come, and one that is taken back twice or too late is no matter", async () => {
      const takeBack = wakeIn(20, "taken back");
      const tooLate = wakeIn(20, "in time");
      takeBack();
      takeBack();
      await bed.pass(60);
      tooLate();
      expect(woken).toEqual(["in time"]);
    });

    test("a wake may take back a later one", async () => {
      const later = wakeIn(40, "later");
      wakeIn(20, "first", () => later());
      await bed.pass(80);
      expect(woken).toEqual(["first"]);
    });

    test("a wake may ask for the next, which comes in its turn", async () => {
      wakeIn(20, "first", () => wakeIn(60, "third"));
      wakeIn(40, "second");
      await passUntil(100, 3);
      expect(woken).toEqual(["first", "second", "third"]);
    });

    test("a wake that is asked for within one, for now, comes when that has ended", async () => {
      wakeIn(20, "first", () => {
        wakeIn(0, "second");
        woken.push("first has ended");
      });
      await passUntil(60, 3);
      expect(woken).toEqual(["first", "first has ended", "second"]);
    });
  });
}
