import { expect, test } from "bun:test";
import { type ManifestFile, podsWithDuplicateName, resolveConflicts } from "./manifest-conflicts.ts";

/** `a.yaml web-1` defines the pod web with the uid 1. */
function claimantOf(text: string): ManifestFile {
  const [, file = "", name = "", uid = ""] = /^(\S+) (\w+)-(\w+)$/.exec(text) ?? [];
  return { file, pod: { metadata: { name, uid, namespace: "default" }, spec: { containers: [] } } };
}

const rows: readonly [sentence: string, now: string[], before: string[], granted: string[], refused: string[]][] = [
  ["different pods do not conflict", ["b web-1", "a db-2"], [], ["a", "b"], []],
  [
    "a pod without an owner goes to the first file by name",
    ["b web-2", "a web-1"],
    [],
    ["a"],
    ["b: pod default/web is already defined by a; default/web stays as it was"],
  ],
  [
    "a copy of a manifest does not take over the pod, whatever its file name",
    ["a web-2", "b web-1"],
    ["b web-1"],
    ["b"],
    ["a: pod default/web is already defined by b; default/web stays as it was"],
  ],
  [
    "a manifest keeps its pod while it changes",
    ["a web-2", "b web-3"],
    ["b web-1"],
    ["b"],
    ["a: pod default/web is already defined by b; default/web stays as it was"],
  ],
  [
    "a manifest keeps its uid too",
    ["a db-1", "b web-1"],
    ["b web-1"],
    ["b"],
    ["a: pod uid 1 is already defined by b; default/web stays as it was"],
  ],
  ["a name and uid that were given up are free", ["a web-2", "b db-3"], ["b web-1"], ["a", "b"], []],
  ["a removed file owns nothing", ["a web-2"], ["b web-1"], ["a"], []],
  [
    "a manifest with a pod of its own does not get another file's pod as well",
    ["a web-2", "b db-2"],
    ["a web-1", "b db-2"],
    ["b"],
    ["a: pod uid 2 is already defined by b; default/db stays as it was"],
  ],
  [
    "the pod that a rejected manifest has lost goes to the next file that defines it",
    ["a web-2", "b db-2", "c web-3"],
    ["a web-1", "b db-2"],
    ["b", "c"],
    ["a: pod uid 2 is already defined by b; default/db stays as it was"],
  ],
];
for (const [sentence, now, before, granted, refused] of rows)
  test(sentence, () => {
    const settled = resolveConflicts(now.map(claimantOf), before.map(claimantOf));
    expect(settled.accepted.map(({ file }) => file)).toEqual(granted);
    expect(settled.conflicts.map(({ file, problem }) => `${file}: ${problem}`)).toEqual(refused);
  });

test("a name conflict reports the duplicate pod, a uid conflict alone does not", () => {
  const { conflicts: all } = resolveConflicts(["a web-1", "b web-2", "c db-1"].map(claimantOf), []);
  expect(all.map(({ file, duplicate }) => `${file} ${duplicate?.metadata.uid}`)).toEqual(["b 2", "c undefined"]);
});

test("the first pod of a name is no duplicate", () => {
  const pods = ["a web-1", "b db-2", "c web-3", "d web-4"].map((text) => claimantOf(text).pod);
  expect(podsWithDuplicateName(pods).map(({ metadata }) => metadata.uid)).toEqual(["3", "4"]);
});
