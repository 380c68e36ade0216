import { expect, test } from "bun:test";
import golden from "../../../test/golden/pod-defaults.json" with { type: "json" };
import type { Pod, PodSpec } from "../gen/types.ts";
import { defaultPod } from "./pod.ts";

const rows = golden as unknown as readonly { readonly name: string; readonly pod: Pod; readonly spec: PodSpec }[];

for (const { name, pod, spec } of rows)
  test(`defaultPod fills in ${name} like the API server`, () => {
    expect(defaultPod(pod).spec as unknown).toEqual(spec);
  });

test("defaultPod does not change its argument", () => {
  const pod: Pod = {
    metadata: { name: "web" },
    spec: { containers: [{ name: "main", ports: [{ containerPort: 80 }] }] },
  };
  const before = structuredClone(pod);
  defaultPod(pod);
  expect(pod).toEqual(before);
});

test("defaultPod is idempotent", () => {
  for (const { pod } of rows) expect(defaultPod(defaultPod(pod))).toEqual(defaultPod(pod));
});
