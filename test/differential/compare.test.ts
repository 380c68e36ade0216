import { expect, test } from "bun:test";
import { compare, type Deliberate, stale, tell } from "./compare.ts";
import { ORDER, type Rows } from "./rows.ts";

const rows = (entries: Readonly<Record<string, string>>): Rows => new Map(Object.entries(entries));
const kinds = (
  a: Readonly<Record<string, string>>,
  b: Readonly<Record<string, string>>,
  berth: Readonly<Record<string, string>>,
  deliberate: readonly Deliberate[] = [],
) =>
  compare({ pod: "p", kubelet: [rows(a), rows(b)], berth: rows(berth) }, deliberate).map(
    ({ field, kind }) => `${kind} ${field}`,
  );
const entry: Deliberate = { pod: "p", field: "x", kubelet: "1", berth: "2", reason: "so" };

test("what all three show alike is no finding", () => {
  expect(kinds({ x: "1" }, { x: "1" }, { x: "1" })).toEqual([]);
});

test("what Berth alone shows otherwise is a difference, also where a side shows nothing", () => {
  expect(kinds({ x: "1" }, { x: "1" }, { x: "2" })).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, { x: "1" }, {})).toEqual(["difference x"]);
  expect(kinds({}, {}, { x: "1" })).toEqual(["difference x"]);
});

test("what the kubelet shows otherwise than itself is noise, and is shown", () => {
  expect(kinds({ x: "1" }, { x: "2" }, { x: "1" })).toEqual(["noise x"]);
  expect(kinds({ x: "1" }, {}, { x: "3" })).toEqual(["noise x"]);
});

test("a difference that is listed is deliberate, where both sides are as the list says", () => {
  expect(kinds({ x: "1" }, { x: "1" }, { x: "2" }, [entry])).toEqual(["deliberate x"]);
  expect(kinds({ x: "1" }, { x: "1" }, { x: "3" }, [entry])).toEqual(["difference x"]);
  expect(kinds({ x: "4" }, { x: "4" }, { x: "2" }, [entry])).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, { x: "1" }, {}, [entry])).toEqual(["difference x"]);
  const pattern = { ...entry, pod: /^p/, field: /./, kubelet: /\d/, berth: /^/ };
  expect(kinds({ x: "1" }, { x: "1" }, {}, [pattern])).toEqual(["deliberate x"]);
});

test("of the order of events only those count that all sides tell", () => {
  expect(kinds({ [ORDER]: "a\nb\nc" }, { [ORDER]: "a\nb" }, { [ORDER]: "a\nx\nb" })).toEqual([]);
  expect(kinds({ [ORDER]: "a\nb" }, { [ORDER]: "a\nb" }, { [ORDER]: "b\na" })).toEqual([`difference ${ORDER}`]);
  expect(kinds({ [ORDER]: "a\nb" }, { [ORDER]: "b\na" }, { [ORDER]: "b\na" })).toEqual([`noise ${ORDER}`]);
});

test("an entry is stale when nothing is found that it is about", () => {
  const found = (a: string, b: string, berth: string) =>
    compare({ pod: "p", kubelet: [rows({ x: a }), rows({ x: b })], berth: rows({ x: berth }) }, [entry]);
  expect(stale([entry], found("1", "1", "2"))).toEqual([]);
  expect(stale([entry], found("0", "1", "2"))).toEqual([]);
  expect(stale([entry], found("1", "1", "3"))).toEqual([entry]);
  expect(stale([entry], [])).toEqual([entry]);
});

test("a finding is told with each side", () => {
  const found = compare({ pod: "p", kubelet: [rows({ x: "1" }), rows({ x: "1" })], berth: rows({}) }, []);
  expect(tell(found)).toBe("difference: p: x\n    kubelet        1\n    berth          (nothing)");
});
