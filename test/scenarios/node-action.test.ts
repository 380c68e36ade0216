// An action of the node by a made-up rule: the removal of images that no pod uses, on a node without a cluster.
import { expect } from "bun:test";
import type { NodeRule } from "../../agent/decide/node/node.ts";
import { CriError } from "../../cri/error.ts";
import { FakeClock } from "../fakes/clock.ts";
import { type AgentHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

/** Removes each image that no pod names, from the fifth second on. */
const unusedImages: NodeRule = {
  name: "unusedImages",
  needsImages: true,
  decide({ pods, areSourcesReady, observed, now }) {
    const startsAt = FakeClock.start + 5_000;
    if (now < startsAt) return { lookAgainAt: startsAt };
    if (!areSourcesReady) return {};
    const used = new Set(pods.flatMap(({ pod }) => pod.spec.containers.map(({ image = "" }) => image)));
    const unused = (observed.images ?? []).filter(({ tags }) => !tags.some((tag) => used.has(tag)));
    return { actions: unused.map(({ id }) => ({ kind: "removeImage", image: id, why: "no pod uses it" })) };
  },
};

const imagesOf = ({ runtime }: AgentHarness) => [...runtime.images.keys()].join(", ");

scenario(
  "an image that no pod uses is removed by a rule of the node, again after a failure, and once only",
  {
    options: { nodeRules: [unusedImages] },
    async before(harness) {
      harness.runtime.addImage("old:1");
      await harness.setManifests(makePod("web"));
      harness.runtime.before.removeImage = () => {
        delete harness.runtime.before.removeImage;
        throw new CriError("UNKNOWN", "RemoveImage", "the image is in use");
      };
    },
    async run(harness) {
      await harness.advance("120s");
      harness.appendLog([`shown: ${imagesOf(harness)}`]);
      expect(imagesOf(harness)).toBe("busybox:1");
    },
  },
  (log) => {
    expect(filterLines(log, /image|shown/)).toMatchInlineSnapshot(`
      "5s failed to remove image sha256:6a9ed969004946a6070eb6ef5a54bbb5949d7bad0ff19dd51822bca976f9b303: no pod uses it
      6s remove image sha256:6a9ed969004946a6070eb6ef5a54bbb5949d7bad0ff19dd51822bca976f9b303: no pod uses it
      120s shown: busybox:1"
    `);
  },
);

scenario(
  "a pod that needs an image which the node has removed pulls it again",
  {
    options: { nodeRules: [unusedImages] },
    async before(harness) {
      harness.runtime.addImage("app:1");
      harness.runtime.registry.set("app:1", undefined);
      await harness.setManifests(makePod("web"));
    },
    async run(harness) {
      await harness.advance("60s");
      await harness.setManifests(
        makePod("web"),
        makePod("late", { containers: [{ name: "a", image: "app:1", imagePullPolicy: "IfNotPresent" }] }),
      );
      await harness.advance("60s");
      expect(imagesOf(harness)).toBe("busybox:1, app:1");
    },
  },
  (log) => {
    expect(filterLines(log, /image|late/)).toMatchInlineSnapshot(`
      "5s remove image sha256:d2bb92ca7c6d792d8403126683c765d9803c413c0d528e8bef979c138e93a0a1: no pod uses it
      60s report late Pending: a waiting ContainerCreating
      60s late: create the pod's log directory
      60s late: run sandbox (attempt 0): the pod has none
      60s late: create the pod's directories
      60s late: pull image app:1: it is not on this node
      60s late: create container a (attempt 0): it has not run yet
      60s late: start container a (attempt 0)
      60s report late Running, ready: a running"
    `);
  },
);
