import { expect, test } from "bun:test";
import { readApiRecording } from "./api-recording.ts";
import type { ComparedAnswer } from "./ask-api.ts";
import {
  type ApiAnswers,
  type ApiDifference,
  compareWithList,
  differencesOf,
  entriesOf,
  findingsOf,
  formatRows,
  type KnownApiDifference,
  keyOf,
} from "./compare-answers.ts";
import { knownApiDifferences } from "./known-api-differences.ts";

const entries = entriesOf(knownApiDifferences);

const text = (body: string, more: Partial<ComparedAnswer> = {}): ComparedAnswer => ({
  ...{ status: 200, headers: {}, body },
  ...more,
});
const fields = (values: Readonly<Record<string, string>>): ComparedAnswer => ({
  ...{ status: 200, headers: {}, body: Object.keys(values), values },
});

const kubelet: ApiAnswers = {
  "GET /same": text("ok", { headers: { allow: "GET" } }),
  "GET /exec": text("Upgrade request required", { status: 500, headers: { "x-content-type-options": "nosniff" } }),
  "GET /fields": text("", { body: ["a", "b"] }),
  "GET /order": text("", { body: ["a", "b"] }),
  "GET /open": text("ok"),
  "GET /silent": text("ok", { status: 204 }),
};
const { "GET /silent": _silent, ...others } = kubelet;
const berth: ApiAnswers = {
  ...others,
  "GET /exec": text("Forbidden", { status: 403 }),
  "GET /fields": fields({ b: "1", c: '""' }),
  "GET /order": text("", { body: ["b", "a"] }),
  "GET /open": text("ok", { isOpen: true }),
};
const known: readonly KnownApiDifference[] = [
  {
    reason: "so",
    names: ["GET /exec", "GET /same"],
    parts: { status: { kubelet: "500", berth: "403" }, body: { kubelet: "Upgrade request required", berth: "no" } },
  },
  { reason: "so", names: ["GET /silent"], parts: { status: { kubelet: "200" } } },
  { reason: "so", names: ["GET /fields"], parts: { "field c": { berth: '""' } } },
];

test("an answer differs from the kubelet's in parts, each as the list says, with another value, or unlisted", () => {
  expect(formatRows(compareWithList(differencesOf(kubelet, berth), known))).toBe(
    `
listed: GET /exec: status
  kubelet               "500"
  berth                 "403"
not listed: GET /exec: header x-content-type-options
  kubelet               "nosniff"
  berth                 (nothing)
other value: GET /exec: body
  kubelet               "Upgrade request required"
  berth                 "Forbidden"
  in the list: kubelet  "Upgrade request required"
  in the list: berth    "no"
not listed: GET /fields: field a
  kubelet               "(shown)"
  berth                 (nothing)
listed: GET /fields: field c
  kubelet               (nothing)
  berth                 "\\"\\""
not listed: GET /order: body
  kubelet               "a\\nb"
  berth                 "b\\na"
not listed: GET /open: end of the connection
  kubelet               "closed"
  berth                 "open"
other value: GET /silent: status
  kubelet               "204"
  berth                 (nothing)
  in the list: kubelet  "200"
  in the list: berth    (nothing)
not listed: GET /silent: end of the connection
  kubelet               "closed"
  berth                 (nothing)
not listed: GET /silent: body
  kubelet               "ok"
  berth                 (nothing)
stale: GET /same: status
  in the list: kubelet  "500"
  in the list: berth    "403"
stale: GET /same: body
  in the list: kubelet  "Upgrade request required"
  in the list: berth    "no"
`.trim(),
  );
});

test("no part of a case is listed twice", () => {
  const keys = entries.map(keyOf);
  expect(keys.filter((key, index) => keys.indexOf(key) !== index)).toEqual([]);
});

test("the list has the kubelet's side of every difference as it was recorded", async () => {
  const recording = await readApiRecording();
  const recordedValue = ({ name, part }: ApiDifference) => {
    const recorded = recording[name] ?? text("");
    const empty = { status: 0, headers: {}, body: typeof recorded.body === "string" ? "" : [] };
    return differencesOf({ [name]: recorded }, { [name]: empty }).find((each) => each.part === part)?.kubelet;
  };
  const recorded = entries.map((entry) => ({ ...entry, kubelet: recordedValue(entry) }));
  expect(formatRows(findingsOf(compareWithList(recorded, knownApiDifferences)))).toBe("");
  expect(recorded.filter(({ kubelet: value, berth: own }) => value === own)).toEqual([]);
});

test.each(["kubelet", "berth"] as const)("an entry of the list accepts no value of a side but its own: %s", (side) => {
  const accepted = entries.flatMap((entry) => {
    const own = entry[side] ?? "";
    const wrong = new Set(["any other\ntext", "", undefined, `${own}0`, `0${own}`, `${own}\n`]);
    wrong.delete(entry[side]);
    return [...wrong]
      .map((value) => ({ ...entry, [side]: value }))
      .filter((planted) => {
        const findings = findingsOf(compareWithList([planted], knownApiDifferences));
        return !findings.some((row) => keyOf(row) === keyOf(entry));
      });
  });
  expect(accepted).toEqual([]);
});
