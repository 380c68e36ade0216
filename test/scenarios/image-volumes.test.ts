// Volumes of images: pulled like the images of containers, and mounted by the runtime.
import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { events, pods } from "../../kube/resource.ts";
import type { Container, ImageVolumeSource, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import { type AgentHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const mounting: Container = {
  name: "a",
  image: "app:1",
  volumeMounts: [{ name: "model", mountPath: "/model" }],
};
const specOf = (image: ImageVolumeSource, ...containers: readonly Container[]): PodSpec => ({
  containers: containers.length === 0 ? [mounting] : containers,
  volumes: [{ name: "model", image }],
});
const addImages = (harness: AgentHarness, ...images: readonly string[]) => {
  for (const image of images) harness.runtime.registry.set(image, undefined);
};
/** What the runtime mounts into the containers: `a: /model of sha256:… (model:1)`. */
const mountsOf = ({ runtime }: AgentHarness): readonly string[] =>
  [...runtime.containers.values()].flatMap(({ config }) =>
    config.mounts.flatMap(({ containerPath, hostPath, image, imageSubPath, readonly }) => {
      if (image === undefined) return [];
      const isOnNode = runtime.images.get(image.userSpecifiedImage)?.id === image.image;
      const what = `${imageSubPath === "" ? "" : `${imageSubPath} in `}${image.userSpecifiedImage}`;
      const how = `${readonly ? "read-only" : "writable"}${isOnNode && hostPath === "" ? "" : ", not by its reference"}`;
      return [`${config.metadata?.name}: ${containerPath} shows ${what}, ${how}`];
    }),
  );

scenario(
  "the image of a volume is pulled for the pod, and the runtime mounts it, also into the next instance",
  {
    before: (harness) => addImages(harness, "app:1", "model:1"),
    async run(harness) {
      await harness.setManifests(makePod("web", specOf({ reference: "model:1" })));
      await harness.advance("10s");
      await harness.exit("a", 1);
      await harness.advance("20s");
      harness.appendLog(mountsOf(harness));
    },
  },
  (log) => {
    expect(filterLines(log, /pull|create|shows/)).toMatchInlineSnapshot(`
      "0s web: create the pod's log directory
      0s web: create the pod's directories
      0s web: pull image model:1: it is not on this node
      0s web: pull image app:1: it is not on this node
      0s web: create container a (attempt 0): it has not run yet
      10s web: create container a (attempt 1): it exited with code 1
      30s a: /model shows model:1, read-only
      30s a: /model shows model:1, read-only"
    `);
  },
);

scenario(
  "with pullPolicy Always each instance of a container pulls the image of its volume again",
  {
    before: (harness) => addImages(harness, "app:1", "model:1"),
    async run(harness) {
      await harness.setManifests(makePod("web", specOf({ reference: "model:1", pullPolicy: "Always" })));
      await harness.advance("10s");
      await harness.exit("a", 1);
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /pull|create container/)).toMatchInlineSnapshot(`
      "0s web: pull image model:1: its pull policy is Always
      0s web: pull image app:1: it is not on this node
      0s web: create container a (attempt 0): it has not run yet
      10s web: pull image model:1: its pull policy is Always
      10s web: create container a (attempt 1): it exited with code 1"
    `);
  },
);

apiScenario(
  "the events about the image of a volume are about the pod",
  async (harness) => {
    addImages(harness, "app:1", "model:1");
    const init: Container = { ...mounting, name: "init", volumeMounts: [] };
    const second: Container = {
      ...mounting,
      name: "b",
      volumeMounts: [{ name: "model", mountPath: "/part", subPathExpr: "$(PART)" }],
      env: [{ name: "PART", value: "weights" }],
    };
    await harness.apply("web", { ...specOf({ reference: "model:1" }, mounting, second), initContainers: [init] });
    await harness.advance("10s");
    await harness.exit("init", 0);
    await harness.advance("10s");
  },
  async (_end, harness) => {
    expect(mountsOf(harness)).toMatchInlineSnapshot(`
      [
        "a: /model shows model:1, read-only",
        "b: /part shows weights in model:1, read-only",
      ]
    `);
    expect(await harness.events("web")).toMatchInlineSnapshot(`
      [
        "1x Normal Pulling: Pulling image "app:1"",
        "1x Normal Pulling: Pulling image "model:1"",
        "1x Normal Pulled: Successfully pulled image "app:1" in 0s (0s including waiting). Image size: 1000000 bytes.",
        "1x Normal Pulled: Successfully pulled image "model:1" in 0s (0s including waiting). Image size: 1000000 bytes.",
        "1x Normal Created: Container created",
        "1x Normal Started: Container started",
        "1x Normal Pulled: Container image "app:1" already present on machine and can be accessed by the pod",
        "1x Normal Created: Container created",
        "1x Normal Started: Container started",
        "1x Normal Pulled: Container image "model:1" already present on machine and can be accessed by the pod",
        "1x Normal Pulled: Container image "app:1" already present on machine and can be accessed by the pod",
        "1x Normal Created: Container created",
        "1x Normal Started: Container started",
      ]
    `);
  },
);

const failures: readonly [what: string, image: ImageVolumeSource, reason: string, message: string, event: string][] = [
  [
    "cannot be pulled",
    { reference: "model:1" },
    "ImagePullBackOff",
    'Back-off pulling image "model:1": ErrImagePull: failed to pull and unpack image: not found',
    'Normal BackOff: Back-off pulling image "model:1"',
  ],
  [
    "is not on the node and may not be pulled",
    { reference: "model:1", pullPolicy: "Never" },
    "ErrImageNeverPull",
    'Container image "model:1" is not present with pull policy of Never',
    'Warning ErrImageNeverPull: Container image "model:1" is not present with pull policy of Never',
  ],
  [
    "has an invalid name",
    { reference: "Model:1" },
    "InvalidImageName",
    `Failed to apply default image tag "Model:1": couldn't parse image name "Model:1": invalid reference format: repository name (Model) must be lowercase`,
    `Warning InspectFailed: Failed to apply default image tag "Model:1": couldn't parse image name "Model:1": invalid reference format: repository name (Model) must be lowercase`,
  ],
];
for (const [what, image, reason, message, event] of failures)
  test(`the containers that mount a volume whose image ${what} wait, and the others run`, async () => {
    const harness = await runInCluster(async (started) => {
      addImages(started, "app:1");
      started.runtime.registry.set(
        "model:1",
        new CriError("UNKNOWN", "PullImage", "failed to pull and unpack image: not found"),
      );
      await started.apply("web", specOf(image, mounting, { name: "b", image: "app:1" }));
      await started.advance("9s");
    });
    const [pod] = (await harness.kube.user.list(pods(), {})).items;
    const states = new Map(pod?.status?.containerStatuses?.map(({ name, state }) => [name, state]));
    expect(states.get("a")).toEqual({ waiting: { reason, message } });
    expect(states.get("b")?.running).toBeDefined();
    const shown = (await harness.kube.user.list(events("default"), {})).items.map(
      ({ type, reason: why, message: text, involvedObject: { fieldPath } }) =>
        `${type} ${why}: ${text}${fieldPath === undefined ? "" : ` (${fieldPath})`}`,
    );
    expect(shown).toContain(event);
    expect(shown).toContain(`Warning Failed: Error: ${reason} (spec.containers{a})`);
  });
