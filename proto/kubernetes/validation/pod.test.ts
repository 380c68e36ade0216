import { describe, expect, test } from "bun:test";
import goldenDefaults from "../../../test/golden/pod-defaults.json" with { type: "json" };
import goldenErrors from "../../../test/golden/pod-errors.json" with { type: "json" };
import { decodeStrict } from "../decode/strict-decode.ts";
import { defaultPod } from "../defaults/pod.ts";
import { describeFieldError, type FieldError } from "./field-error.ts";
import { validatePod } from "./pod.ts";

interface GoldenRow {
  readonly name: string;
  readonly pod: unknown;
  readonly accepted?: boolean;
  readonly causes?: readonly { readonly field: string; readonly reason: string }[];
}

function errorsOf(value: unknown): readonly FieldError[] {
  const shape = decodeStrict(value);
  return shape.errors ?? validatePod(defaultPod(shape.pod));
}

/** Field and reason of each error, without messages and duplicates: the API server reports some errors twice. */
function summary(errors: readonly { readonly field: string; readonly reason: string }[]): readonly string[] {
  return [...new Set(errors.map(({ field, reason }) => `${field} ${reason.replace("FieldValue", "")}`))].sort();
}

/** Deliberate differences from the API server. */
const differences: Readonly<Record<string, readonly string[]>> = {
  // The API server does not check the address.
  "a host IP that is none": ["spec.containers[0].ports[0].hostIP Invalid"],
  // The API server treats a negative grace period as one second.
  "a negative grace": ["spec.terminationGracePeriodSeconds Invalid"],
  // The API server leaves the medium to the node.
  "a medium that is none": ["spec.volumes[0].emptyDir.medium NotSupported"],
  // The API server drops the field, whose feature gate is off.
  "a stop signal without an operating system": ["spec.containers[0].lifecycle.stopSignal Forbidden"],
  // The API server names the list; Berth names the mount.
  "a mount that needs privileges": ["spec.containers[0].volumeMounts[0].mountPropagation Forbidden"],
  // The API server names the list here too.
  "mounts at odd paths": [
    "spec.containers[0].volumeMounts[3].subPath Invalid",
    "spec.containers[0].volumeMounts[4].subPathExpr Invalid",
    "spec.containers[0].volumeMounts[5].subPathExpr Invalid",
  ],
  // The API server calls an unknown field invalid; Berth lists the supported ones.
  "environment from unknown fields": [
    "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath NotSupported",
    "spec.containers[0].env[1].valueFrom.fieldRef.fieldPath Required",
    "spec.containers[0].env[2].valueFrom.fieldRef Invalid",
    "spec.containers[0].env[3].valueFrom.resourceFieldRef.resource NotSupported",
    "spec.containers[0].env[4].valueFrom.resourceFieldRef.divisor Invalid",
  ],
  // Enumerations are checked earlier, when the pod is decoded; Berth names the entry of the list.
  "unknown texts where few are allowed": [
    "spec.containers[0].imagePullPolicy NotSupported",
    "spec.containers[0].ports[0].protocol NotSupported",
    "spec.containers[0].resizePolicy[0].restartPolicy NotSupported",
    "spec.containers[0].securityContext.procMount NotSupported",
    "spec.containers[0].securityContext.seccompProfile.type NotSupported",
    "spec.containers[0].terminationMessagePolicy NotSupported",
    "spec.containers[0].volumeMounts[0].mountPropagation NotSupported",
    "spec.dnsPolicy NotSupported",
    "spec.preemptionPolicy NotSupported",
    "spec.restartPolicy NotSupported",
    "spec.securityContext.fsGroupChangePolicy NotSupported",
    "spec.securityContext.seLinuxChangePolicy NotSupported",
    "spec.securityContext.supplementalGroupsPolicy NotSupported",
    "spec.tolerations[0].effect NotSupported",
    "spec.tolerations[0].operator NotSupported",
    "spec.volumes[0].hostPath.type NotSupported",
  ],
};

describe("validatePod rejects an invalid pod with the API server's field and reason:", () => {
  const rows = (goldenErrors as readonly GoldenRow[]).filter(({ accepted, causes }) => accepted || causes);
  for (const { name, pod, causes } of rows)
    test(name, () => {
      expect(summary(errorsOf(pod))).toEqual(differences[name] ?? summary(causes ?? []));
    });

  test("every listed difference is a difference", () => {
    for (const [name, ours] of Object.entries(differences)) {
      const row = rows.find((candidate) => candidate.name === name);
      expect(summary(row?.causes ?? [])).not.toEqual([...ours]);
      expect(row).toBeDefined();
    }
  });
});

describe("validatePod accepts a pod that the API server accepts:", () => {
  for (const { name, pod } of goldenDefaults)
    test(name, () => {
      expect(errorsOf(pod).map(describeFieldError)).toEqual([]);
    });
});

describe("an error states what is valid:", () => {
  const web = (spec: object): unknown => ({ apiVersion: "v1", kind: "Pod", metadata: { name: "web" }, spec });
  const main = { name: "main", image: "busybox:1" };
  const rows: readonly (readonly [message: string, pod: unknown])[] = [
    [
      "metadata.name: Required value: name or generateName is required",
      { apiVersion: "v1", kind: "Pod", spec: { containers: [main] } },
    ],
    ["spec.containers: Required value", web({ containers: [] })],
    [
      `spec.containers[0].name: Invalid value: "Main": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character`,
      web({ containers: [{ ...main, name: "Main" }] }),
    ],
    ['spec.containers[1].name: Duplicate value: "main"', web({ containers: [main, main] })],
    [
      'spec.restartPolicy: Unsupported value: "always": supported values: "Always", "Never", "OnFailure"',
      web({ containers: [main], restartPolicy: "always" }),
    ],
    [
      'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
      web({ containers: [{ ...main, resources: { limits: { cpu: "1" }, requests: { cpu: "2" } } }] }),
    ],
    [
      "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
      web({ containers: [main], volumes: [{ name: "v", emptyDir: {}, hostPath: { path: "/v" } }] }),
    ],
    [
      'spec.containers[0].volumeMounts[0].name: Not found: "v"',
      web({ containers: [{ ...main, volumeMounts: [{ name: "v", mountPath: "/v" }] }] }),
    ],
    [
      "metadata.annotations: Too long: may not be more than 262144 bytes",
      {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "web", annotations: { a: "ä".repeat(131_072) } },
        spec: { containers: [main] },
      },
    ],
  ];
  for (const [message, pod] of rows)
    test(message, () => {
      expect(errorsOf(pod).map(describeFieldError)).toEqual([message]);
    });
});
