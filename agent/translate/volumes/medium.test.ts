import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { TranslateError } from "../translate-error.ts";
import { mediumOf } from "./medium.ts";

const MI = 2 ** 20;
const containerOf = (name: string, ...sizes: readonly string[]) => {
  const requests = Object.fromEntries(sizes.map((size) => [`hugepages-${size}`, "4Mi"]));
  return { name, resources: { requests: { cpu: "1", ...requests } } };
};
const podOf = (app: readonly string[], init: readonly string[] = []): Pick<Pod, "spec"> => ({
  spec: { containers: [containerOf("a", ...app), containerOf("b")], initContainers: [containerOf("i", ...init)] },
});
const none = podOf([]);

const mediums: readonly [sentence: string, medium: string | undefined, pod: Pick<Pod, "spec">, expected: object][] = [
  ["by default the disk", undefined, none, { kind: "disk" }],
  ["an empty one is the disk", "", none, { kind: "disk" }],
  ["Memory", "Memory", none, { kind: "memory" }],
  ["HugePages: the size that a container requests", "HugePages", podOf(["2Mi"]), { pageBytes: 2 * MI }],
  ["HugePages: the size that an init container requests", "HugePages", podOf([], ["1Gi"]), { pageBytes: 1024 * MI }],
  ["HugePages: one size in two units", "HugePages", podOf(["2Mi"], ["2048Ki"]), { pageBytes: 2 * MI }],
  [
    "HugePages-1Gi, which is one of two requested sizes",
    "HugePages-1Gi",
    podOf(["2Mi", "1Gi"]),
    { pageBytes: 1024 * MI },
  ],
  ["HugePages-2048Ki, requested as 2Mi", "HugePages-2048Ki", podOf(["2Mi"]), { pageBytes: 2 * MI }],
];
for (const [sentence, medium, pod, expected] of mediums)
  test(`the medium of an emptyDir: ${sentence}`, () => {
    expect(mediumOf(pod, { name: "v", emptyDir: medium === undefined ? {} : { medium } })).toMatchObject(expected);
  });

const lacks = (medium: string) =>
  `medium ${medium}: hugePages storage requested, but there is no resource request for huge pages`;
const refused: readonly [medium: string, pod: Pick<Pod, "spec">, why: string][] = [
  ["HugePages", none, lacks("HugePages")],
  ["HugePages-1Gi", podOf(["2Mi"]), lacks("HugePages-1Gi")],
  [
    "HugePages",
    podOf(["2Mi"], ["1Gi"]),
    "medium: HugePages can't be used if container requests multiple huge page sizes",
  ],
  ["HugePages-x", podOf(["2Mi"]), '"x" is not a quantity: it does not begin with a number'],
  ["Disk", none, 'unknown storage medium "Disk"'],
];
for (const [medium, pod, why] of refused)
  test(`an emptyDir with the medium ${medium} fails: ${why}`, () => {
    const translate = () => mediumOf(pod, { name: "v", emptyDir: { medium } });
    expect(translate).toThrow(TranslateError);
    expect(translate).toThrow(`MountVolume.SetUp failed for volume "v" : ${why}`);
  });
