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
  tokens: new Map(),
  claims: new Map(),
  nodeLabels: {},
};
const unread: ClusterFacts = {
  services: undefined,
  runtimeHandlers: undefined,
  referencedObjects: new Map(),
  tokens: new Map(),
  claims: new Map(),
  nodeLabels: {},
};

test("runtimeHandlerOf returns the handler of the RuntimeClass, or an empty name without one", () => {
  const handlers = [{ runtimeClassName: "sandboxed" }, { runtimeClassName: "" }, {}].map((spec) =>
    runtimeHandlerOf(pod(spec), { cluster: read }),
  );
  expect(handlers).toEqual(["runsc", "", ""]);
  expect(runtimeHandlerOf(pod({}), {})).toBe("");
});

const unknown: readonly [sentence: string, runtimeClassName: string, cluster: { readonly cluster?: ClusterFacts }][] = [
  ["that the cluster lacks", "kata", { cluster: { ...read, runtimeHandlers: new Map() } }],
  ["named like a property of every object", "constructor", { cluster: read }],
  ["before the first list", "kata", { cluster: unread }],
  ["on a standalone node", "kata", {}],
];
for (const [sentence, runtimeClassName, cluster] of unknown)
  test(`a RuntimeClass ${sentence} is not found, with Kubernetes' message`, () => {
    const translate = () => runtimeHandlerOf(pod({ runtimeClassName }), cluster);
    expect(translate).toThrow(TranslateError);
    expect(translate).toThrow(
      expect.objectContaining({
        reason: "CreatePodSandboxError",
        message: `runtimeclass.node.k8s.io "${runtimeClassName}" not found`,
      }),
    );
  });
