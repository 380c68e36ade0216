import { describe, expect, test } from "bun:test";
import { describeFieldError } from "../validation/field-error.ts";
import { readTold } from "./lenient-decode.ts";

const pod = (spec: object, more: object = {}) => ({
  metadata: { name: "web", uid: "u", namespace: "shop" },
  spec: { containers: [{ name: "a" }], ...spec },
  ...more,
});

test("what is as the API says is given back as it is, with all that this release does not know", () => {
  const told = pod({ restartPolicy: "Sometimes", quantum: [null], overhead: { cpu: "250m" } }, { aura: null });
  expect(readTold("Pod", told).object as unknown).toBe(told);
});

test("null stands for what is not given, a required field that is not given is empty, and a quantity may be a number", () => {
  const told = pod({ containers: [{ name: "a", ports: null, env: [{ value: "b" }] }], overhead: { cpu: 1 } });
  expect(readTold("Pod", told).object as unknown).toEqual(
    pod({ containers: [{ name: "a", env: [{ name: "", value: "b" }] }], overhead: { cpu: "1" } }),
  );
});

test("a pod of a newer API server keeps the fields beside what has to change", () => {
  const told = pod({ volumes: [{ name: "v", holographic: { size: 1 }, emptyDir: null }] });
  expect(readTold("Pod", told).object?.spec.volumes as unknown).toEqual([{ name: "v", holographic: { size: 1 } }]);
});

describe("the first thing that cannot be read is told", () => {
  const rows: readonly (readonly [kind: "Node" | "Pod", told: unknown, problem: string])[] = [
    ["Pod", 5, "Invalid type: got 5, expected object"],
    ["Pod", pod({ containers: [null] }), "spec.containers[0]: Invalid type: got null, expected object"],
    ["Pod", pod({ initContainers: {} }), "spec.initContainers: Invalid type: got object, expected array"],
    ["Pod", pod({ hostNetwork: "yes" }), "spec.hostNetwork: Invalid type: got string, expected boolean"],
    ["Pod", pod({ priority: 1.5 }), "spec.priority: Invalid type: got 1.5, expected integer"],
    ["Pod", pod({ nodeSelector: [] }), "spec.nodeSelector: Invalid type: got array, expected object"],
    ["Pod", pod({ nodeSelector: { disk: null } }), "spec.nodeSelector[disk]: Invalid type: got null, expected string"],
    [
      "Pod",
      pod({ overhead: { cpu: "lots" } }),
      'spec.overhead[cpu]: Invalid value: "lots": it does not begin with a number',
    ],
    [
      "Pod",
      pod({}, { status: { conditions: [null] } }),
      "status.conditions[0]: Invalid type: got null, expected object",
    ],
    ["Node", { metadata: {}, spec: { taints: [{}, 5] } }, "spec.taints[1]: Invalid type: got 5, expected object"],
    ["Node", { metadata: { labels: 5 }, spec: {} }, "metadata.labels: Invalid type: got 5, expected object"],
  ];
  for (const [kind, told, problem] of rows)
    test(`${kind}: ${problem}`, () => {
      const read = readTold(kind, told);
      expect(read.problem && describeFieldError(read.problem)).toBe(problem);
    });
});
