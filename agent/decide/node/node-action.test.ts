import { expect, test } from "bun:test";
import {
  describeNodeAction,
  dueActions,
  type NodeAction,
  type NodeActionMemory,
  recordNodeActionEnded,
  recordNodeActionStarted,
} from "./node-action.ts";

const remove = (image: string, why = "no pod uses it"): NodeAction => ({ kind: "removeImage", image, why });
const SECOND = 1_000;

test("an action is one sentence", () => {
  expect(describeNodeAction(remove("sha256:1"))).toBe("remove image sha256:1: no pod uses it");
});

/** What happens to the action at these seconds; the table shows when it is due again. */
type Step = readonly ["started" | "succeeded" | "failed", atSeconds: number];
const rows: readonly (readonly Step[])[] = [
  [],
  [["started", 0]],
  [
    ["started", 0],
    ["failed", 1],
  ],
  [
    ["started", 0],
    ["failed", 1],
    ["started", 2],
    ["failed", 3],
  ],
  Array.from({ length: 12 }, () => ["failed", 0] as const),
  [
    ["started", 0],
    ["succeeded", 1],
  ],
  [
    ["failed", 0],
    ["failed", 0],
    ["succeeded", 1],
    ["failed", 2],
  ],
  [["failed", 500]],
  [["failed", 9.5]],
  [
    ["succeeded", 0],
    ["failed", 9.5],
  ],
];

test("an action runs once at a time, waits after a failure and after a success that shows no effect", () => {
  const lines = rows.map((steps) => {
    const memory = steps.reduce<NodeActionMemory>(
      (before, [state, seconds]) =>
        state === "started"
          ? recordNodeActionStarted(before, remove("a"))
          : recordNodeActionEnded(before, remove("a"), state, seconds * SECOND),
      new Map(),
    );
    const now = 10 * SECOND;
    const { actions, lookAgainAt } = dueActions([remove("a", "another reason")], memory, now);
    const due = actions.length === 1 ? "due" : Number.isFinite(lookAgainAt) ? `at ${lookAgainAt / SECOND} s` : "runs";
    return `${steps.map(([state, seconds]) => `${state} ${seconds} s`).join(", ") || "never tried"}: ${due}`;
  });
  expect(`at 10 s\n${lines.join("\n")}`).toMatchInlineSnapshot(`
    "at 10 s
    never tried: due
    started 0 s: runs
    started 0 s, failed 1 s: due
    started 0 s, failed 1 s, started 2 s, failed 3 s: due
    failed 0 s, failed 0 s, failed 0 s, failed 0 s, failed 0 s, failed 0 s, failed 0 s, failed 0 s, failed 0 s, failed 0 s, failed 0 s, failed 0 s: at 300 s
    started 0 s, succeeded 1 s: at 61 s
    failed 0 s, failed 0 s, succeeded 1 s, failed 2 s: due
    failed 500 s: due
    failed 9.5 s: at 10.5 s
    succeeded 0 s, failed 9.5 s: at 10.5 s"
  `);
});

test("two requests for one action are one, and others are not held up", () => {
  const memory = recordNodeActionStarted(new Map(), remove("a"));
  const { actions } = dueActions([remove("a"), remove("b"), remove("b", "again")], memory, 0);
  expect(actions).toEqual([remove("b", "again")]);
});

test("an action that is no longer requested is forgotten, unless it runs", () => {
  const memory = recordNodeActionEnded(recordNodeActionStarted(new Map(), remove("a")), remove("b"), "failed", 0);
  const after = dueActions([], memory, 0);
  expect([after.memory.size, after.lookAgainAt]).toEqual([1, Number.POSITIVE_INFINITY]);
  expect(dueActions([remove("a"), remove("b")], after.memory, 0).actions).toEqual([remove("b")]);
});

test("limits that are written again after others are due at once", () => {
  const write = (cpuWeight: number): NodeAction => ({
    kind: "writeCgroup",
    cgroup: { of: "own", name: ["kubepods"] },
    limits: { cpuWeight },
    why: "it has others",
  });
  const [first, second] = [write(1), write(2)];
  // The first one is still running when the second one is requested.
  const steps: readonly ((memory: NodeActionMemory) => NodeActionMemory)[] = [
    (memory) => recordNodeActionStarted(memory, first),
    (memory) => recordNodeActionStarted(memory, second),
    (memory) => recordNodeActionEnded(memory, first, "succeeded", 0),
    (memory) => dueActions([first], memory, 0).memory,
    (memory) => recordNodeActionEnded(memory, second, "succeeded", SECOND),
  ];
  const memory = steps.reduce<NodeActionMemory>((before, step) => step(before), new Map());
  expect(dueActions([first], memory, SECOND).actions).toEqual([first]);
  // Another cgroup whose name begins alike has nothing to do with it.
  const other: NodeAction = {
    ...first,
    kind: "writeCgroup",
    cgroup: { of: "own", name: ["kubepods", "burstable"] },
  } as NodeAction;
  const kept = recordNodeActionEnded(recordNodeActionEnded(new Map(), other, "succeeded", 0), second, "succeeded", 0);
  expect(dueActions([other], kept, SECOND).actions).toEqual([]);
});

test("limits that cannot be written are tried again at least once a minute", () => {
  const write: NodeAction = { kind: "writeCgroup", cgroup: { of: "own", name: ["kubepods"] }, limits: {}, why: "why" };
  let memory: NodeActionMemory = new Map();
  for (let failures = 0; failures < 12; failures++) memory = recordNodeActionEnded(memory, write, "failed", 0);
  expect(dueActions([write], memory, 1).lookAgainAt).toBe(60 * SECOND);
});
