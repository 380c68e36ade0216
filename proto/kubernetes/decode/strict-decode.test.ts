import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { oddJson, oddPod } from "../../../test/fakes/arbitrary-json.ts";
import goldenErrors from "../../../test/golden/pod-errors.json" with { type: "json" };
import { defaultPod } from "../defaults/pod.ts";
import { staticPod } from "../static-pod.ts";
import { staticPodReferences } from "../static-pod-references.ts";
import { describeFieldError } from "../validation/field-error.ts";
import { validatePod } from "../validation/pod.ts";
import { checkPodShape } from "./strict-decode.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const timeoutMs = 5_000 + numRuns;
const refused = (goldenErrors as readonly { name: string; pod: unknown; message?: string }[]).filter(
  ({ message }) => message,
);

/** What the API server refuses when it reads the pod, and what we say to it. */
const messages: Readonly<Record<string, readonly string[]>> = {
  "quantities that are none": [
    'spec.containers[0].resources.limits[cpu]: Invalid value: "lots": it does not begin with a number',
  ],
  "another kind": ['kind: Unsupported value: "Service": supported values: "Pod"'],
  "a list": ['kind: Unsupported value: "List": supported values: "Pod"', "items: Unknown field"],
  "unknown fields": [
    'metadata.label: Unknown field: did you mean "labels"?',
    'spec.containers[0].comand: Unknown field: did you mean "command"?',
    'spec.restartpolicy: Unknown field: did you mean "restartPolicy"?',
  ],
  "a text for a list": ["spec.containers: Invalid type: got string, expected array"],
  "a list for an object": ["spec.securityContext: Invalid type: got array, expected object"],
  "a text for a number": ["spec.terminationGracePeriodSeconds: Invalid type: got string, expected integer"],
  "a number for a text": [
    "spec.containers[0].env[0].value: Invalid type: got number, expected string; YAML reads it as 1: put it in quotes",
  ],
  "a number for a flag": ["spec.hostNetwork: Invalid type: got number, expected boolean"],
  "a number that is too large": ["spec.containers[0].ports[0].containerPort: Invalid type: 3000000000 is out of range"],
  "a fraction for a number": ["spec.terminationGracePeriodSeconds: Invalid type: got 1.5, expected integer"],
  "a time that is none": [
    'metadata.creationTimestamp: Invalid value: "yesterday": must be a time such as 2026-01-02T03:04:05Z',
  ],
};

describe("what the API server cannot read is refused with field and reason", () => {
  for (const { name, pod } of refused)
    test(name, () => {
      expect(checkPodShape(pod).errors?.map(describeFieldError)).toEqual([...(messages[name] ?? [])]);
    });
});

describe("what is no object is no pod", () => {
  for (const value of [null, undefined, 1, "pod", [], true])
    test(JSON.stringify(value) ?? "undefined", () => {
      expect(checkPodShape(value).errors?.[0]?.message).toStartWith("Invalid type: got ");
    });
});

test("null stands for what is not given, and a number for a quantity", () => {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "web", creationTimestamp: null },
    spec: { containers: [{ name: "main", env: null, resources: { limits: { cpu: 0.5 } } }], volumes: null },
    status: { phase: "Lost", anything: 1 },
  };
  expect(checkPodShape(pod).pod as unknown).toEqual({
    ...pod,
    metadata: { name: "web" },
    spec: { containers: [{ name: "main", resources: { limits: { cpu: "0.5" } } }] },
  });
});

test("required fields that are not given are empty, so that every later step finds them", () => {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    spec: { containers: [{ livenessProbe: { httpGet: {} } }], volumes: [{}] },
  };
  expect(checkPodShape(pod).pod as unknown).toEqual({
    ...pod,
    metadata: {},
    spec: { containers: [{ name: "", livenessProbe: { httpGet: { port: 0 } } }], volumes: [{ name: "" }] },
  });
  expect(checkPodShape({ apiVersion: "v1", kind: "Pod" }).pod?.spec.containers).toEqual([]);
});

test("keys that JavaScript means something by are unknown fields and plain labels", () => {
  const pod = JSON.parse(
    '{"apiVersion":"v1","kind":"Pod","constructor":{},"metadata":{"__proto__":{},"labels":{"__proto__":"a"}}}',
  );
  expect(checkPodShape(pod).errors?.map(({ field }) => field)).toEqual(["constructor", "metadata.__proto__"]);
});

test("a manifest with thousands of errors gets twenty messages", () => {
  const containers = Array.from({ length: 100_000 }, () => ({ nam: "a" }));
  expect(checkPodShape({ apiVersion: "v1", kind: "Pod", spec: { containers } }).errors).toHaveLength(20);
});

describe("for all JSON values", () => {
  test(
    "a value is refused, or becomes a pod that every later step takes",
    () => {
      fc.assert(
        fc.property(fc.oneof({ weight: 9, arbitrary: oddPod }, { weight: 1, arbitrary: oddJson }), (value) => {
          const { errors, pod } = checkPodShape(value);
          if (errors !== undefined) {
            expect(errors.length).toBeGreaterThan(0);
            return;
          }
          const placed = staticPod(pod, { nodeName: "node", source: { kind: "file", path: "/a" } });
          expect(validatePod(placed)).toBeArray();
          expect(staticPodReferences(placed)).toBeArray();
          expect(defaultPod(placed)).toEqual(placed);
        }),
        { numRuns },
      );
    },
    timeoutMs,
  );
});

test("an object in the place of a quantity is a wrong type, whatever it says of itself", () => {
  const limits = { memory: { toString: {} } };
  const { errors } = checkPodShape({
    apiVersion: "v1",
    kind: "Pod",
    spec: { containers: [{ name: "a", resources: { limits } }] },
  });
  expect(errors?.map(({ field }) => field)).toEqual(["spec.containers[0].resources.limits[memory]"]);
});
