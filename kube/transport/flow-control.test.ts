import { expect, test } from "bun:test";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { createFlowControl, type RateLimit } from "./flow-control.ts";

const { signal } = new AbortController();

/** Admits requests by name; `admitted` lists them in order, and `end` ends one. */
function createAdmissions(main?: RateLimit) {
  const clock = new FakeClock();
  const flowControl = createFlowControl({ main, events: undefined }, clock);
  const admitted: string[] = [];
  const ends = new Map<string, () => void>();
  const urgent = new Set<string>();
  const admit = async (name: string, isLongRunning = false) => {
    ends.set(name, await flowControl.admit("main", isLongRunning, signal, () => urgent.has(name)));
    admitted.push(name);
  };
  const end = async (name: string) => {
    ends.get(name)?.();
    await settlePromises();
  };
  return { clock, flowControl, admitted, urgent, admit, end };
}

test("reviews have a rate of their own: a flood of them holds up nothing else, and the other way round", async () => {
  const { clock, flowControl, admitted, admit } = createAdmissions({ qps: 1, burst: 1 });
  let reviews = 0;
  const review = async () => {
    const end = await flowControl.admit("reviews", false, signal);
    reviews++;
    end();
  };
  for (let index = 0; index < 100; index++) void review();
  for (const name of ["a", "b"]) void admit(name);
  await settlePromises();
  expect([reviews, admitted]).toEqual([40, ["a"]]);
  await clock.advance(1_000);
  expect([reviews, admitted]).toEqual([60, ["a", "b"]]);
});

test("urgent requests get the next tokens, and every fourth token goes to the request that has waited longest", async () => {
  const { clock, admitted, urgent, admit } = createAdmissions({ qps: 1, burst: 1 });
  for (const name of ["urgent 1", "urgent 2", "urgent 3", "urgent 4"]) urgent.add(name);
  for (const name of ["burst", "a", "b", "c", ...urgent, "later urgent"]) void admit(name);
  await clock.advance(2_000);
  // It becomes urgent while it waits.
  urgent.add("later urgent");
  await clock.advance(6_000);
  expect(admitted).toEqual(["burst", "urgent 1", "urgent 2", "urgent 3", "a", "urgent 4", "later urgent", "b", "c"]);
});

test("urgent requests are sent before the others, and every fourth is the one that has waited longest", async () => {
  const { admitted, urgent, admit, end } = createAdmissions();
  const running = Array.from({ length: 64 }, (_, index) => `running ${index}`);
  for (const name of running) void admit(name);
  for (const name of ["urgent 1", "urgent 2", "urgent 3", "urgent 4"]) urgent.add(name);
  for (const name of ["a", "b", ...urgent]) void admit(name);
  await settlePromises();
  expect(admitted).toEqual(running);
  for (const name of running.slice(0, 6)) await end(name);
  expect(admitted.slice(64)).toEqual(["urgent 1", "urgent 2", "urgent 3", "a", "urgent 4", "b"]);
});

test("a watch waits for a token and occupies no slot", async () => {
  const { clock, admitted, admit } = createAdmissions({ qps: 1, burst: 64 });
  for (let index = 0; index < 64; index += 1) void admit(`watch ${index}`, true);
  void admit("request");
  await settlePromises();
  expect(admitted).toHaveLength(64);
  await clock.advance(1_000);
  expect(admitted.at(-1)).toBe("request");
});

test("lease renewals wait for nothing", async () => {
  const { flowControl, admit } = createAdmissions({ qps: 1, burst: 1 });
  for (const name of ["a", "b"]) void admit(name);
  await flowControl.admit("heartbeat", false, signal);
});

test("without a rate no request waits for a token", async () => {
  const { admit } = createAdmissions();
  await Promise.all(Array.from({ length: 1_000 }, (_, index) => admit(`watch ${index}`, true)));
});
