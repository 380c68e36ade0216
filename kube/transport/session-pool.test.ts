import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { KubeError } from "../error.ts";
import { createSessionPool } from "./session-pool.ts";

test("the pool logs each reason once, and a limited number of them if the server words each one differently", () => {
  const log = new FakeLog();
  const server = () => new URL("https://api.example");
  const pool = createSessionPool({ server, clock: new FakeClock(), random: () => 0, log });
  const fail = (times: number) => {
    for (let i = 0; i < times; i++) pool.onFailure(new KubeError("UNREACHABLE", `request ${i} has failed`));
  };
  fail(3);
  fail(3);
  expect(log.takeLines()).toHaveLength(3);
  fail(1_000);
  expect(log.takeLines()).toHaveLength(29);
  pool.onResponse();
  fail(2);
  expect(log.takeLines()).toEqual([
    "info: the API server answers again",
    "warn: the API server cannot be used: request 0 has failed; trying again",
    "warn: the API server cannot be used: request 1 has failed; trying again",
  ]);
});
