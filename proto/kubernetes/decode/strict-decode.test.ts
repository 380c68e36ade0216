import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { arbitraryJson, mutatedPod, validPod } from "../../../test/fakes/arbitrary-json.ts";
import { leastCount } from "../../../test/fakes/least-count.ts";
import goldenErrors from "../../../test/golden/pod-errors.json" with { type: "json" };
import { defaultPod } from "../defaults/pod.ts";
import { staticPod } from "../static-pod.ts";
import { staticPodReferences } from "../static-pod-references.ts";
import { describeFieldError } from "../validation/field-error.ts";
import { validatePod } from "../validation/pod.ts";
import { decodeStrict } from "./strict-decode.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
// A busy machine needs ten times the usual millisecond for an input.
const timeoutMs = 5_000 + 10 * numRuns;
const rejected = (goldenErrors as readonly { name: string; pod: unknown; message?: string }[]).filter(
  ({ message }) => message,
);

/** Manifests that the API server cannot decode, and Berth's errors. The names are those of the golden file. */
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

describe("decodeStrict rejects what the API server cannot decode, with field and reason:", () => {
  for (const { name, pod } of rejected)
    test(name, () => {
      expect(decodeStrict(pod).errors?.map(describeFieldError)).toEqual([...(messages[name] ?? [])]);
    });
});

describe("decodeStrict rejects a value that is not an object:", () => {
  for (const value of [null, undefined, 1, "pod", [], true])
    test(JSON.stringify(value) ?? "undefined", () => {
      expect(decodeStrict(value).errors?.[0]?.message).toStartWith("Invalid type: got ");
    });
});

test("null means unset, and a quantity may be a number", () => {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "web", creationTimestamp: null },
    spec: { containers: [{ name: "main", env: null, resources: { limits: { cpu: 0.5 } } }], volumes: null },
    status: { phase: "Lost", anything: 1 },
  };
  expect(decodeStrict(pod).pod as unknown).toEqual({
    ...pod,
    metadata: { name: "web" },
    spec: { containers: [{ name: "main", resources: { limits: { cpu: "0.5" } } }] },
  });
});

test("unset required fields become empty", () => {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    spec: { containers: [{ livenessProbe: { httpGet: {} } }], volumes: [{}] },
  };
  expect(decodeStrict(pod).pod as unknown).toEqual({
    ...pod,
    metadata: {},
    spec: { containers: [{ name: "", livenessProbe: { httpGet: { port: 0 } } }], volumes: [{ name: "" }] },
  });
  expect(decodeStrict({ apiVersion: "v1", kind: "Pod" }).pod?.spec.containers).toEqual([]);
});

test("keys such as __proto__ are unknown fields or ordinary labels", () => {
  const pod = JSON.parse(
    '{"apiVersion":"v1","kind":"Pod","constructor":{},"metadata":{"__proto__":{},"labels":{"__proto__":"a"}}}',
  );
  expect(decodeStrict(pod).errors?.map(({ field }) => field)).toEqual(["constructor", "metadata.__proto__"]);
});

test("a manifest with thousands of errors gets twenty messages", () => {
  const containers = Array.from({ length: 100_000 }, () => ({ nam: "a" }));
  expect(decodeStrict({ apiVersion: "v1", kind: "Pod", spec: { containers } }).errors).toHaveLength(20);
});

describe("for all JSON values", () => {
  test(
    "decodeStrict returns errors or a pod that defaulting and validation accept",
    () => {
      let accepted = 0;
      fc.assert(
        fc.property(
          fc.oneof(
            { weight: 9, arbitrary: mutatedPod },
            { weight: 4, arbitrary: validPod },
            { weight: 1, arbitrary: arbitraryJson },
          ),
          (value) => {
            const { errors, pod } = decodeStrict(value);
            if (errors !== undefined) {
              expect(errors.length).toBeGreaterThan(0);
              return;
            }
            accepted += 1;
            const placed = staticPod(pod, { nodeName: "node", source: { kind: "file", path: "/a" } });
            expect(validatePod(placed)).toBeArray();
            expect(staticPodReferences(placed)).toBeArray();
            expect(defaultPod(placed)).toEqual(placed);
          },
        ),
        { numRuns },
      );
      expect(accepted).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
    },
    timeoutMs,
  );
});

test("an object in place of a quantity is a type error, whatever its toString returns", () => {
  const limits = { memory: { toString: {} } };
  const { errors } = decodeStrict({
    apiVersion: "v1",
    kind: "Pod",
    spec: { containers: [{ name: "a", resources: { limits } }] },
  });
  expect(errors?.map(({ field }) => field)).toEqual(["spec.containers[0].resources.limits[memory]"]);
});
