import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { hashOfRowSources } from "./row-sources.ts";

/** The hash if this text stands where `before` stands, which must be somewhere. */
function hashWith(before: string, after: string): string {
  let isChanged = false;
  const hash = hashOfRowSources((path) => {
    const source = readFileSync(path, "utf8");
    isChanged ||= source.includes(before);
    return source.replaceAll(before, after);
  });
  expect(isChanged).toBe(true);
  return hash;
}

test.each([
  ["a placeholder", '"TIME"', '"A TIME"'],
  ["the name of an instance", "INSTANCE ${", "CONTAINER ${"],
  ["the text for times in order", '"in order"', '"right"'],
  ["what is wrong with a time", "takenAtMs ?", "takenAtMs + 1000 ?"],
  ["how a view is read", "withSortedOptions(rest) : value", "rest : value"],
  ["which statuses count", "...(status?.ephemeralContainerStatuses ?? []),", ""],
  ["how the runtime's log is read", "hasPodUid = uids.has(sandboxId)", "hasPodUid = true"],
])("the code of the rows has another hash if %s changes", (_what, before, after) => {
  expect(hashWith(before, after)).not.toBe(hashOfRowSources());
});

test.each([
  ["a comment", "/** Every leaf of an object", "/** All leaves of an object"],
  ["a type", "readonly takenAtMs: number", "takenAtMs: number"],
  ["a function that makes no row", "requested.filter(", "requested.toSorted().filter("],
])("the code of the rows has the same hash if %s changes", (_what, before, after) => {
  expect(hashWith(before, after)).toBe(hashOfRowSources());
});
