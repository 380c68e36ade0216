import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import { nodeSettings, observedNode } from "../../../test/fakes/observed-node.ts";
import {
  decideNode,
  emptyNodeMemory,
  type NodeInput,
  type NodeMemory,
  type NodeRule,
  type PodTerminationRequest,
} from "./node.ts";
import type { SignalObservations } from "./observed-node.ts";

const memoryLeft = (available: number): SignalObservations => ({
  "memory.available": { capacity: 8 * 2 ** 30, available },
});
const scarce = memoryLeft(2 ** 20);
const enough = memoryLeft(2 ** 30);
const input = (at: number, observations: SignalObservations, more: Partial<NodeInput> = {}): NodeInput => ({
  pods: [],
  areSourcesReady: true,
  observed: { ...observedNode, signals: { at, observations } },
  memory: emptyNodeMemory,
  settings: nodeSettings,
  rules: [],
  now: at,
  ...more,
});
const MINUTE = 60_000;

test("without a rule the node ends no pod, does nothing, and is decided again only after a change", () => {
  const { terminationRequests, actions, lookAgainAt } = decideNode(input(0, scarce));
  expect([terminationRequests, actions, lookAgainAt]).toEqual([[], [], Number.POSITIVE_INFINITY]);
});

test("the pressure follows from the latest measurement of the signals", () => {
  const { status, memory } = decideNode(input(0, scarce));
  expect(status).toEqual({
    pressure: { memory: true, disk: false, pid: false },
    thresholdsMet: ["memory.available is 1048576 of 8589934592, its hard threshold 100Mi"],
  });
  const later = decideNode(input(5 * MINUTE, enough, { memory }));
  expect(later.status).toEqual({ pressure: { memory: false, disk: false, pid: false }, thresholdsMet: [] });
});

test("a measurement counts once: deciding on it again does not extend the pressure", () => {
  const first = decideNode(input(0, scarce));
  const again = decideNode({ ...input(0, scarce, { memory: first.memory }), now: 4 * MINUTE });
  expect(again.status).toEqual(first.status);
  const later = decideNode(input(5 * MINUTE, enough, { memory: again.memory }));
  expect(later.status.pressure.memory).toBe(false);
});

test("before the first measurement there is no pressure", () => {
  const observed = { ...observedNode, signals: undefined };
  expect(decideNode(input(0, scarce, { observed })).status.pressure.memory).toBe(false);
});

const request = (uid: string): PodTerminationRequest => ({
  uid: uid as PodUid,
  reason: "Evicted",
  message: "m",
  gracePeriodSeconds: 1,
});

test("each rule sees the decided pressure; their requests are joined in order, and the earliest time counts", () => {
  const underPressure: NodeRule = {
    name: "underPressure",
    decide: ({ pressure }) => ({
      terminationRequests: pressure.memory ? [request("a")] : [],
      lookAgainAt: 30_000,
    }),
  };
  const always: NodeRule = {
    name: "always",
    decide: ({ now }) => ({ terminationRequests: [request("b")], lookAgainAt: now + 10_000 }),
  };
  const { terminationRequests, lookAgainAt } = decideNode(input(0, scarce, { rules: [underPressure, always] }));
  expect(terminationRequests.map(({ uid }) => uid as string)).toEqual(["a", "b"]);
  expect(lookAgainAt).toBe(10_000);
});

test("each rule has a memory of its own, which a decision without one keeps", () => {
  const counter = (name: string, step: number): NodeRule<number> => ({
    name,
    emptyMemory: 0,
    decide: ({ now }, count) => (now === 2 ? {} : { memory: count + step }),
  });
  const rules = [counter("ones", 1), counter("tens", 10)];
  const memories: NodeMemory[] = [];
  for (const at of [0, 1, 2])
    memories.push(decideNode(input(at, enough, { rules, memory: memories.at(-1) ?? emptyNodeMemory })).memory);
  expect(memories.map(({ rules: all }) => [...all])).toEqual([
    [
      ["ones", 1],
      ["tens", 10],
    ],
    [
      ["ones", 2],
      ["tens", 20],
    ],
    [
      ["ones", 2],
      ["tens", 20],
    ],
  ]);
});

test("a rule reads the settings of the node", () => {
  const rule: NodeRule = {
    name: "spare",
    decide: ({ settings }) => ({ lookAgainAt: settings.evictionPressureTransitionPeriodMs }),
  };
  expect(decideNode(input(0, enough, { rules: [rule] })).lookAgainAt).toBe(
    nodeSettings.evictionPressureTransitionPeriodMs,
  );
});
