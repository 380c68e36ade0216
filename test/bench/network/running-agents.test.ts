import { expect, test } from "bun:test";
import { createRunningAgents } from "./running-agents.ts";

test("only the chosen agents run, and each gets a signal when that changes alone", async () => {
  const signals: string[] = [];
  const agents = createRunningAgents({ a: { pid: 1 }, b: { pid: 2 }, c: { pid: 3 } }, (pid, signal) =>
    signals.push(`${signal} ${pid}`),
  );
  const signalsOf = async (change: () => Promise<void> | void) => {
    await change();
    return signals.splice(0);
  };
  expect(await signalsOf(() => agents.only(["b"], 0))).toEqual(["SIGSTOP 1", "SIGSTOP 3"]);
  expect(await signalsOf(() => agents.only(["b"], 0))).toEqual([]);
  expect(await signalsOf(() => agents.only(["a", "b"], 0))).toEqual(["SIGCONT 1"]);
  expect(await signalsOf(() => agents.only([], 0))).toEqual(["SIGSTOP 1", "SIGSTOP 2"]);
  expect(await signalsOf(agents.all)).toEqual(["SIGCONT 1", "SIGCONT 2", "SIGCONT 3"]);
});
