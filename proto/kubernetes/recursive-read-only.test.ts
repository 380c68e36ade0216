import { expect, test } from "bun:test";
import type { VolumeMount } from "./gen/types.ts";
import { resolveRecursiveReadOnly } from "./recursive-read-only.ts";

const request = 'volume "v" requested recursive read-only mode';
const rows: readonly [mount: object, isSupported: boolean, expected: boolean | string][] = [
  [{}, true, false],
  [{ readOnly: true }, true, false],
  [{ readOnly: true, recursiveReadOnly: "Disabled" }, true, false],
  [{ readOnly: true, recursiveReadOnly: "IfPossible" }, true, true],
  [{ readOnly: true, recursiveReadOnly: "IfPossible" }, false, false],
  [{ readOnly: true, recursiveReadOnly: "Enabled", mountPropagation: "None" }, true, true],
  [{ readOnly: true, recursiveReadOnly: "Enabled" }, false, `${request}, but it is not supported by the runtime`],
  [{ recursiveReadOnly: "IfPossible" }, false, `${request}, but it is not read-only`],
  [
    { readOnly: true, recursiveReadOnly: "IfPossible", mountPropagation: "HostToContainer" },
    true,
    `${request}, but it is not compatible with propagation "HostToContainer"`,
  ],
  [{ readOnly: true, recursiveReadOnly: "Sometimes" }, true, 'unknown recursive read-only mode "Sometimes"'],
];
for (const [mount, isSupported, expected] of rows)
  test(`${JSON.stringify(mount)} on a runtime ${isSupported ? "with" : "without"} support: ${expected}`, () => {
    const found = resolveRecursiveReadOnly({ name: "v", mountPath: "/v", ...mount } as VolumeMount, isSupported);
    expect<object>(found).toEqual(typeof expected === "string" ? { problem: expected } : { isRecursive: expected });
  });
