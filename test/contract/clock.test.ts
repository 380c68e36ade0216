import { createClock, sleep } from "../../host/clock.ts";
import { FakeClock } from "../fakes/clock.ts";
import { clockContract } from "./clock.ts";

clockContract("the machine's", () => {
  const clock = createClock();
  return { clock, pass: (ms) => sleep(clock, ms) };
});

clockContract("the one of tests", () => {
  const clock = new FakeClock();
  return { clock, pass: clock.advance.bind(clock) };
});
