import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { KubeError } from "../error.ts";
import { createSessions } from "./session-pool.ts";

test("each reason is told once, and of a server that words it anew each time not for ever", () => {
  const log = new FakeLog();
  const server = () => new URL("https://api.example");
  const sessions = createSessions({ server, clock: new FakeClock(), random: () => 0, log });
  const fail = (times: number) => {
    for (let i = 0; i < times; i++) sessions.failed(new KubeError("UNREACHABLE", `request ${i} has failed`));
  };
  fail(3);
  fail(3);
  expect(log.told()).toHaveLength(3);
  fail(1_000);
  expect(log.told()).toHaveLength(29);
  sessions.served();
  fail(2);
  expect(log.told()).toEqual([
    "info: the API server answers again",
    "warn: the API server cannot be used: request 0 has failed; trying again",
    "warn: the API server cannot be used: request 1 has failed; trying again",
  ]);
});
