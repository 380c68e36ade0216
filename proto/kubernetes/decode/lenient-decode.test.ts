import { describe, expect, test } from "bun:test";
import { describeFieldError } from "../validation/field-error.ts";
import { decodeLenient } from "./lenient-decode.ts";

const pod = (spec: object, more: object = {}) => ({
  metadata: { name: "web", uid: "u", namespace: "shop" },
  spec: { containers: [{ name: "a" }], ...spec },
  ...more,
});

test("decodeLenient returns a valid object itself, with its unknown fields and enumeration values", () => {
  const received = pod({ restartPolicy: "Sometimes", quantum: [null], overhead: { cpu: "250m" } }, { aura: null });
  expect(decodeLenient("Pod", received).object as unknown).toBe(received);
});

test("null is removed, an unset required field becomes empty, and a quantity may be a number", () => {
  const received = pod({ containers: [{ name: "a", ports: null, env: [{ value: "b" }] }], overhead: { cpu: 1 } });
  expect(decodeLenient("Pod", received).object as unknown).toEqual(
    pod({ containers: [{ name: "a", env: [{ name: "", value: "b" }] }], overhead: { cpu: "1" } }),
  );
});

test("decodeLenient keeps unknown fields when it changes others", () => {
  const received = pod({ volumes: [{ name: "v", holographic: { size: 1 }, emptyDir: null }] });
  expect(decodeLenient("Pod", received).object?.spec.volumes as unknown).toEqual([
    { name: "v", holographic: { size: 1 } },
  ]);
});

describe("decodeLenient reports the first invalid field:", () => {
  const rows: readonly (readonly [kind: "Node" | "Pod", reported: unknown, problem: string])[] = [
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
  for (const [kind, received, problem] of rows)
    test(`${kind}: ${problem}`, () => {
      const decoded = decodeLenient(kind, received);
      expect(decoded.problem && describeFieldError(decoded.problem)).toBe(problem);
    });
});
