import { expect, test } from "bun:test";
import { CniError, throwFailures } from "./error.ts";

const busy = () => new CniError(100, "busy", { plugin: "bridge" });

test.each<[string, readonly CniError[], object | undefined]>([
  ["none", [], undefined],
  ["one, as it is", [busy()], { code: 100, message: "busy", plugin: "bridge" }],
  ["those with the same words, as one", [busy(), busy()], { code: 100, message: "busy", plugin: "bridge" }],
  [
    "several, with the code of the first",
    [busy(), new CniError(999, "it took longer than 60 s"), busy()],
    { code: 100, message: "bridge: busy (code 100); it took longer than 60 s (code 999)", plugin: undefined },
  ],
])("failures: %s", (_name, failures, thrown) => {
  let caught: unknown;
  try {
    throwFailures(failures);
  } catch (error) {
    caught = error;
  }
  if (thrown === undefined) expect(caught).toBeUndefined();
  else expect(caught).toMatchObject(thrown);
});
