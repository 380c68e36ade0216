import { createClock, sleep } from "../../host/clock.ts";
import { FakeClock } from "../fakes/clock.ts";
import { clockContract } from "./clock.ts";

clockContract("the machine's clock", () => {
  const clock = createClock();
  return { clock, advance: (ms) => sleep(clock, ms) };
});

clockContract("the fake clock", () => {
  const clock = new FakeClock();
  return { clock, advance: clock.advance.bind(clock) };
});
