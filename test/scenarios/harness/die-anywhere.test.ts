import { expect, test } from "bun:test";
import type { RuntimeEventSource } from "../../../cri/runtime.ts";
import type { RuntimeChange } from "../../fakes/runtime-events.ts";
import { describeDeaths, selectSources, testDeaths } from "./death-tests.ts";
import { dieAnywhere, type RepeatedScenario, type ScenarioHarness, selectDeaths } from "./die-anywhere.ts";

interface Run extends ScenarioHarness {
  readonly end: readonly string[];
}

const CALLS = [
  "disk.write /root/pod",
  "runtime.createContainer default/web/a #0",
  "runtime.startContainer default/web/a #0",
];
const END = ["container web/a #0 running", "pod web Running"];

/** A scenario of three calls on a node, which ends the same after each death. `onDeath` changes a run with a death. */
function scenarioOf(
  onDeath: (run: Run) => Partial<Run> = () => ({}),
): RepeatedScenario<Run> & { readonly runs: Run[] } {
  const runs: Run[] = [];
  return {
    name: `the container's "web" pod (a) starts`,
    runs,
    async create(dieAfterCall) {
      const diedAfter = dieAfterCall === undefined ? undefined : CALLS[dieAfterCall];
      const course = ["0s create container a (attempt 0)", "0s start container a (attempt 0)"];
      const death = `--> 0s the agent dies after call ${dieAfterCall}, ${diedAfter}; the next one starts`;
      const run: Run = {
        course:
          diedAfter === undefined ? course : [...course.slice(0, dieAfterCall), death, ...course.slice(dieAfterCall)],
        diedAfter,
        mutatingCalls: CALLS.length,
        runtime: { timeline: [] },
        kube: { objects: { history: [] } },
        statusRegressions: () => [],
        showExits: async () => {},
        end: END,
      };
      runs.push(diedAfter === undefined ? run : { ...run, ...onDeath(run) });
      return runs.at(-1)!;
    },
    run: async () => {},
    endOf: async ({ end }) => end,
  };
}

async function failureOf(scenario: RepeatedScenario<Run>): Promise<Error> {
  return await dieAnywhere(scenario, {}).then(
    () => new Error("no error"),
    (failure: Error) => failure,
  );
}

test("a scenario that ends the same after each death passes, and its end is returned", async () => {
  const scenario = scenarioOf();
  expect(await dieAnywhere(scenario, {})).toEqual(END);
  expect(scenario.runs.map(({ diedAfter }) => diedAfter)).toEqual([undefined, ...CALLS]);
});

test("an end that differs after a death names the call, prints both courses and how to repeat it", async () => {
  const scenario = scenarioOf(({ diedAfter }) =>
    diedAfter === CALLS[1]
      ? { end: ["container web/a #0 exited 1", "container web/a #1 running", "pod web Running"] }
      : {},
  );
  expect((await failureOf(scenario)).message).toMatchInlineSnapshot(`
    ""the container's "web" pod (a) starts" ends differently if the agent dies after call 1, runtime.createContainer default/web/a #0.
    To repeat it: DIE_AT=1 npx bun test ./test/scenarios/harness/die-anywhere.test.ts -t "the container.s .web. pod .a. starts"

    The end states differ (- without the death, + with it):
    + container web/a #0 exited 1
    - container web/a #0 running
    + container web/a #1 running

    Without the death:
        0s create container a (attempt 0)
        0s start container a (attempt 0)

    With the death:
        0s create container a (attempt 0)
    --> 0s the agent dies after call 1, runtime.createContainer default/web/a #0; the next one starts
        0s start container a (attempt 0)"
  `);
});

test("a scenario that fails only after a death prints the same, with the error as its cause", async () => {
  const cause = new Error("no container b exists");
  const run = async ({ diedAfter }: Run) => {
    if (diedAfter === CALLS[2]) throw cause;
  };
  const error = await failureOf({ ...scenarioOf(), run });
  expect(error.message).toContain("after call 2, runtime.startContainer default/web/a #0.");
  expect(error.message).toContain("\nThe scenario fails: no container b exists\n\nWithout the death:\n");
  expect(error.cause).toBe(cause);
});

test("two instances of a container that were live at once fail, although the end is the same", async () => {
  const change = (id: string): RuntimeChange => ({ kind: "container", change: "created", at: 0, role: "uid/a", id });
  const { message } = await failureOf(scenarioOf(() => ({ runtime: { timeline: [change("1"), change("2")] } })));
  expect(message).toContain("\nLive at once as container uid/a: 1, 2\n");
});

test("an event of a container that is repeated fails, although the end is the same, with a death and without", async () => {
  const involvedObject = { namespace: "default", name: "web", uid: "uid", fieldPath: "spec.containers{a}" };
  const metadata = { name: "web.1", uid: "", resourceVersion: "" };
  const object = { metadata, involvedObject, reason: "Started", count: 1, lastTimestamp: "2026-01-01T00:00:00Z" };
  const history = [{ type: "ADDED", resource: "events", version: 1, object, before: undefined }] as const;
  const kube = { objects: { history: [...history] } };
  const line = "Started of default/web/a is repeated: it was started 0 times";
  const { message } = await failureOf(scenarioOf(() => ({ kube })));
  expect(message).toContain(`\n${line}\n`);
  const { create, ...others } = scenarioOf();
  const always = async (dieAfterCall?: number) => ({ ...(await create(dieAfterCall)), kube });
  await expect(dieAnywhere({ ...others, create: always }, {})).rejects.toThrow(
    `"the container's "web" pod (a) starts" without a death:\n${line}`,
  );
});

test("the command that repeats a death has the seed and the source of the events", async () => {
  const more = { seed: { value: 5, offset: 1 }, eventSource: "cri-events" } as const;
  const { message } = await failureOf({ ...scenarioOf(() => ({ end: [] })), ...more });
  expect(message).toContain("To repeat it: DIE_AT=0 BERTH_SEED=5 npx bun test ");
  expect(message).toContain("pod .a. starts, .* with cri-events");
});

test("a status that regresses only after a death fails, although the end is the same", async () => {
  const regressions = ["web: a: end regressed: {} → {}"];
  const { message } = await failureOf(scenarioOf(() => ({ statusRegressions: () => regressions })));
  expect(message).toContain(`\n${regressions[0]}\n`);
  const { create, ...others } = scenarioOf();
  const always = async (dieAfterCall?: number) => ({
    ...(await create(dieAfterCall)),
    statusRegressions: () => regressions,
  });
  expect(await dieAnywhere({ ...others, create: always }, {})).toEqual(END);
});

test.each<[env: Readonly<Record<string, string>>, turn: number, selected: readonly RuntimeEventSource[]]>([
  [{}, 0, ["containerd-events"]],
  [{}, 1, ["cri-events"]],
  [{ DIE_BOTH: "1" }, 1, ["cri-events", "containerd-events"]],
  [{ DIE_EVERY: "17", DIE_AT: "3" }, 0, ["containerd-events", "cri-events"]],
  [{ DIE_EVERY: "17" }, 1, ["cri-events"]],
])("of the calls that %j selects, turn %d tries with %j", (env, turn, selected) => {
  expect(selectSources(env, turn)).toEqual(selected);
});

test.each<[stride: number, env: Readonly<Record<string, string>>, deaths: string]>([
  [1, {}, "whatever call the agent dies after"],
  [5, {}, "if the agent dies after one of 5 calls"],
  [5, { DIE_EVERY: "3" }, "if the agent dies after one of 15 calls"],
  [5, { DIE_BOTH: "1" }, "whatever call the agent dies after"],
  [1, { DIE_AT: "4", DIE_EVERY: "3" }, "if the agent dies after call 4"],
])("the title of a scenario with the stride %d and %j says: %s", (stride, env, deaths) => {
  expect(describeDeaths(stride, env)).toBe(deaths);
});

test("a scenario whose agent makes fewer calls in the run with the death fails", async () => {
  const { message } = await failureOf(scenarioOf(() => ({ diedAfter: undefined })));
  expect(message).toContain("\nThe agent did not die: it made fewer calls than without a death.\n");
});

test("of two ends that differ much, the first twenty lines are printed", async () => {
  const end = Array.from({ length: 30 }, (_, index) => `file ${index}`);
  const { message } = await failureOf(scenarioOf(() => ({ end })));
  expect(message).toMatch(/\n\+ file 25\n… and 12 more lines\n/);
});

test("the environment and the scenario select the calls after which the agent dies", () => {
  const select = (env: Readonly<Record<string, string>>, more: Partial<RepeatedScenario> = {}) =>
    selectDeaths({ name: "a pod starts", ...more }, 7, env);
  expect(select({})).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(select({ DIE_EVERY: "3" })).toEqual([0, 3, 6]);
  expect(select({ DIE_EVERY: "2" }, { stride: 2, seed: { value: 5, offset: 2 } })).toEqual([3]);
  expect(select({ DIE_AT: "4", DIE_EVERY: "3" }, { stride: 5 })).toEqual([4]);
  expect(select({ DIE_AT: "7" })).toEqual([]);
  expect(() => select({ DIE_AT: "last" })).toThrow("DIE_AT=last is not the number of a call");
  expect(select({ DIE_BOTH: "1" }, { stride: 5 })).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

test("a scenario with fewer calls than its stride has one death, and one without a call fails", () => {
  const select = (calls: number, env: Readonly<Record<string, string>> = {}) =>
    selectDeaths({ name: "a pod starts", stride: 3, seed: { value: 3, offset: 2 } }, calls, env);
  expect(select(2)).toEqual([1]);
  expect(select(1)).toEqual([0]);
  expect(select(2, { DIE_EVERY: "4" })).toEqual([1]);
  expect(() => select(0)).toThrow('"a pod starts" makes no call after which the agent could die');
});

test("the stride of a scenario is at most five", () => {
  const scenario = scenarioOf();
  const register = () => testDeaths<Run>({ ...scenario, create: () => scenario.create(), stride: 6 });
  expect(register).toThrow("tries every 6th call; make it smaller");
});
