import { expect, test } from "bun:test";
import { explainUnknownPod, unknownPodText } from "./unknown-pod.ts";

const podNamed = (name: string, namespace = "default") => ({
  metadata: { namespace, name },
  spec: { containers: [{ name: "main" }] },
});
const refused = [
  { file: "/etc/manifests/typo.yaml", problem: 'line 8: unknown field "imag", did you mean "image"?' },
  { file: "/etc/manifests/tab.yml", problem: "line 2: a tab" },
];
const pods = [podNamed("web-node"), podNamed("once"), podNamed("cart", "shop"), podNamed("cart", "store")];
const known = { pods, refused, nodeName: "node" };
const start = (name: string) => `no pod ${JSON.stringify(name)} in namespace "default"`;

test.each([
  ["cart", "; it is in another one: -n shop and -n store"],
  ["web", ", did you mean web-node?"],
  ["wbe-node", ", did you mean web-node?"],
  ["onec", ", did you mean once?"],
  ["pod/web-node", ": write the name alone, web-node"],
  ["typo", ': the agent refuses /etc/manifests/typo.yaml: line 8: unknown field "imag", did you mean "image"?'],
  ["tab-node", ": the agent refuses /etc/manifests/tab.yml: line 2: a tab"],
  // Only the node's name is the same.
  ["dep-node", "; berth pods lists them; the agent refuses typo.yaml and tab.yml"],
])("a pod %s that does not exist", (name, end) => {
  expect(unknownPodText(known, "default", name)).toBe(start(name) + end);
});

test("without refused manifests", () => {
  expect(unknownPodText({ ...known, refused: [] }, "default", "other")).toBe(
    `${start("other")}; berth pods lists them`,
  );
});

test("the explanation of a refused manifest says what cures it; one of another pod does not", () => {
  expect(explainUnknownPod(known, "default", "tab-node").split("\n")).toEqual([
    `${start("tab-node")}: the agent refuses /etc/manifests/tab.yml: line 2: a tab`,
    "cure  correct the file, or move it out of the folder",
    "run   $EDITOR /etc/manifests/tab.yml",
  ]);
  expect(explainUnknownPod(known, "default", "cart")).toBe(unknownPodText(known, "default", "cart"));
  const elsewhere = { ...known, refused: [{ file: "/m/cart.yaml", problem: "line 2" }] };
  expect(explainUnknownPod(elsewhere, "default", "cart")).toBe(unknownPodText(elsewhere, "default", "cart"));
});
