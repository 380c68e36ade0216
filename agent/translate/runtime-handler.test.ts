import { expect, test } from "bun:test";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import type { ClusterFacts } from "./node-facts.ts";
import { runtimeHandlerOf } from "./runtime-handler.ts";
import { TranslateError } from "./translate-error.ts";

const pod = (spec: Partial<PodSpec>): Pod => ({ metadata: { name: "web" }, spec: { containers: [], ...spec } });
const read: ClusterFacts = { services: [], runtimeHandlers: new Map([["sandboxed", "runsc"]]), referents: new Map() };
const unread: ClusterFacts = { services: undefined, runtimeHandlers: undefined, referents: new Map() };

test("a class is called by its handler, and none by nothing", () => {
  const handlers = [{ runtimeClassName: "sandboxed" }, { runtimeClassName: "" }, {}].map((spec) =>
    runtimeHandlerOf(pod(spec), { cluster: read }),
  );
  expect(handlers).toEqual(["runsc", "", ""]);
  expect(runtimeHandlerOf(pod({}), {})).toBe("");
});

const unknown: readonly [sentence: string, cluster: { readonly cluster?: ClusterFacts }][] = [
  ["that the cluster does not have", { cluster: { ...read, runtimeHandlers: new Map() } }],
  ["that is a word of every JavaScript object", { cluster: read }],
  ["before the cluster's are known", { cluster: unread }],
  ["where there is no cluster", {}],
];
for (const [sentence, cluster] of unknown)
  test(`a class ${sentence} is not found, in Kubernetes' words`, () => {
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
