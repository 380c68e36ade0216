import { expect, test } from "bun:test";
import { claimKey, type KnownClaim } from "../../../proto/kubernetes/claims.ts";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { sandboxConfig } from "../sandbox-config.ts";
import { containerSecurityContext } from "../security/security-context.ts";
import { volumeGroups } from "./volume-groups.ts";

const volumes = ["a", "b"].map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
const container: Container = {
  name: "main",
  volumeMounts: volumes.map(({ name }) => ({ name, mountPath: `/${name}` })),
};
const podOf = (spec: Partial<PodSpec> = {}): Pod => ({
  metadata: { name: "web", namespace: "shop", uid: "u-1" },
  spec: { containers: [container], volumes, ...spec },
});
/** The facts of a node whose claims `a` and `b` are bound to volumes with these annotations. */
function factsWith(...gids: readonly (string | undefined)[]) {
  const claims = gids.map((gid, index): readonly [string, KnownClaim] => {
    const annotations = gid === undefined ? {} : { "pv.beta.kubernetes.io/gid": gid };
    const persistentVolume = { metadata: { name: `pv-${index}`, annotations }, spec: {} };
    const name = index === 0 ? "a" : "b";
    return [
      claimKey({ namespace: "shop", name, podUid: "u-1" }),
      { claim: { metadata: { name }, spec: {} }, persistentVolume },
    ];
  });
  const objects = { services: [], runtimeHandlers: undefined, referencedObjects: new Map(), tokens: new Map() };
  return { ...nodeFacts, cluster: { ...objects, claims: new Map(claims), nodeLabels: {} } };
}

const rows: readonly [sentence: string, gids: readonly (string | undefined)[], pod: Pod, expected: bigint[]][] = [
  ["a volume without the annotation adds none", [undefined], podOf(), []],
  ["a volume with one adds it", ["1234"], podOf(), [1234n]],
  ["two volumes add both", ["1234", "5"], podOf(), [1234n, 5n]],
  ["the same group is added once", ["5", "5"], podOf(), [5n]],
  ["a sign and zeros are those of a number in Go", ["+0042", "-1"], podOf(), [42n, -1n]],
  ["a text that is no number has no effect", ["1k", "0x10"], podOf(), []],
  ["neither has one of more than 64 bits, nor an empty one", ["9223372036854775808", ""], podOf(), []],
  ["a group that the pod has is not added again", ["5"], podOf({ securityContext: { supplementalGroups: [5] } }), []],
  ["the fsGroup is no such group", ["5"], podOf({ securityContext: { fsGroup: 5 } }), [5n]],
  ["a volume that no container uses adds none", ["5"], podOf({ containers: [{ name: "main" }] }), []],
  ["a claim that is not known yet adds none", [], podOf(), []],
];
for (const [sentence, gids, pod, expected] of rows)
  test(sentence, () => {
    expect(volumeGroups(pod, factsWith(...gids))).toEqual(expected);
  });

test("a pod of a standalone node has no such groups", () => {
  expect(volumeGroups(podOf(), nodeFacts)).toEqual([]);
});

test("the sandbox and its containers get the groups after those of the pod", () => {
  const pod = podOf({ securityContext: { fsGroup: 2000, supplementalGroups: [7] } });
  const facts = factsWith("1234");
  const root = { uid: 0, username: "" };
  const { linux } = sandboxConfig(pod, { attempt: 0, crashes: 0 }, facts);
  for (const context of [containerSecurityContext(pod, container, root, facts), linux?.securityContext])
    expect(context?.supplementalGroups).toEqual([2000n, 7n, 1234n]);
});
