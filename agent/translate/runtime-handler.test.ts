import { expect, test } from "bun:test";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import type { ClusterFacts } from "./node-facts.ts";
import { runtimeHandlerOf } from "./runtime-handler.ts";
import { TranslateError } from "./translate-error.ts";

const pod = (spec: Partial<PodSpec>): Pod => ({ metadata: { name: "web" }, spec: { containers: [], ...spec } });
const read: ClusterFacts = {
  services: [],
  runtimeHandlers: new Map([["sandboxed", "runsc"]]),
  referencedObjects: new Map(),
};
const unread: ClusterFacts = { services: undefined, runtimeHandlers: undefined, referencedObjects: new Map() };

test("runtimeHandlerOf returns the handler of the RuntimeClass, or an empty name without one", () => {
  const handlers = [{ runtimeClassName: "sandboxed" }, { runtimeClassName: "" }, {}].map((spec) =>
    runtimeHandlerOf(pod(spec), { cluster: read }),
  );
  expect(handlers).toEqual(["runsc", "", ""]);
  expect(runtimeHandlerOf(pod({}), {})).toBe("");
});

const unknown: readonly [sentence: string, cluster: { readonly cluster?: ClusterFacts }][] = [
  ["that the cluster lacks", { cluster: { ...read, runtimeHandlers: new Map() } }],
  ["named like a property of every object", { cluster: read }],
  ["before the first list", { cluster: unread }],
  ["on a standalone node", {}],
];
for (const [sentence, cluster] of unknown)
  test(`a RuntimeClass ${sentence} is not found, with Kubernetes' message`, () => {
    const name = sentence.includes("JavaScript") ? "constructor" : "kata";
    const translate = () => runtimeHandlerOf(pod({ runtimeClassName: name }), cluster);
    expect(translate).toThrow(TranslateError);
    expect(translate).toThrow(
      expect.objectContaining({
        reason: "CreatePodSandboxError",
        message: `runtimeclass.node.k8s.io "${name}" not found`,
      }),
    );
  });
