/*
 * https://kubernetes.io/docs/concepts/configuration/configmap/
 * https://kubernetes.io/docs/tasks/configure-pod-container/configure-pod-configmap/
 *
 * Not tested here, since it concerns others or is not implemented:
 *   ConfigMap object          names, sizes and keys: the API server
 *   ConfigMaps and Pods       code that reads a ConfigMap from the API: the application
 *   Mounted ConfigMaps are    the strategies Cache and Get: test/scenarios/change-detection.test.ts
 *   updated automatically
 *   Immutable ConfigMaps      changes are refused: the API server
 *   Create ConfigMaps         kubectl
 *   Restrictions              names that are no environment variables are skipped: since 1.34 each key is a valid name.
 *                             Static pods: proto/kubernetes/static-pod.test.ts
 */
import { expect, test } from "bun:test";
import { configMaps } from "../../kube/resource.ts";
import type { Container, EnvVar, Volume } from "../../proto/kubernetes/gen/types.ts";
import type { AgentHarness } from "../scenarios/harness.ts";
import { container, containerOf, describeSection, runPod, statusOf } from "./pod-case.ts";
import { addConfigMap, changeConfigMap, environmentOf, modesIn, mountFailures, textsIn } from "./volume-view.ts";

const demo = {
  player_initial_lives: "3",
  ui_properties_file_name: "user-interface.properties",
  "game.properties": "enemy.types=aliens,monsters\nplayer.maximum-lives=5\n",
  "user-interface.properties": "color.good=purple\ncolor.bad=yellow\n",
};
const addDemo = (node: AgentHarness) => addConfigMap(node, "game-demo", demo);
const fromKey = (name: string, key: string): EnvVar => ({
  name,
  valueFrom: { configMapKeyRef: { name: "game-demo", key } },
});
const config = (more: Partial<NonNullable<Volume["configMap"]>> = {}) => ({
  volumes: [{ name: "config", configMap: { name: "game-demo", ...more } }],
});
const withContainer = (more: Partial<Container>) => ({ containers: [container("a", more)] });

describeSection("ConfigMaps and Pods", () => {
  test("the data configures arguments, environment variables and files of a container", async () => {
    const { harness } = await runPod({
      spec: {
        ...config({ items: ["game.properties", "user-interface.properties"].map((key) => ({ key, path: key })) }),
        ...withContainer({
          args: ["--lives=$(PLAYER_INITIAL_LIVES)"],
          env: [
            fromKey("PLAYER_INITIAL_LIVES", "player_initial_lives"),
            fromKey("UI_PROPERTIES_FILE_NAME", "ui_properties_file_name"),
          ],
          volumeMounts: [{ name: "config", mountPath: "/config", readOnly: true }],
        }),
      },
      before: addDemo,
    });
    expect([...harness.runtime.containers.values()].map(({ config: { args } }) => args)).toEqual([["--lives=3"]]);
    expect(environmentOf(harness)).toMatchObject({
      PLAYER_INITIAL_LIVES: "3",
      UI_PROPERTIES_FILE_NAME: "user-interface.properties",
    });
    // Of the four keys those that `items` names.
    expect(await textsIn(harness)).toEqual({
      "/config/game.properties": demo["game.properties"],
      "/config/user-interface.properties": demo["user-interface.properties"],
    });
  });

  test("without items every key becomes a file with the same name as the key", async () => {
    const { harness } = await runPod({ spec: config(), before: addDemo });
    expect(await textsIn(harness)).toEqual(
      Object.fromEntries(Object.entries(demo).map(([key, text]) => [`/config/${key}`, text])),
    );
  });

  test("the ConfigMap is that of the pod's namespace", async () => {
    const { harness } = await runPod({
      spec: config(),
      before: async ({ kube }) => {
        await kube.user.create(configMaps("other"), {
          metadata: { name: "game-demo", namespace: "other" },
          data: demo,
        });
      },
    });
    await harness.advance("5s");
    expect(await mountFailures(harness)).toEqual([
      'MountVolume.SetUp failed for volume "config" : configmap "game-demo" not found',
    ]);
  });
});

describeSection("Using ConfigMaps as files from a Pod", () => {
  test("several pods can refer to the same ConfigMap", async () => {
    const { harness } = await runPod({ spec: config(), before: addDemo });
    await harness.apply("other", { ...config({ items: [{ key: "player_initial_lives", path: "lives" }] }) });
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["other Running, ready: a running", "web Running, ready: a running"]);
    expect(await textsIn(harness)).toEqual({ "/config/lives": "3" });
  });

  test("each container needs its own volumeMounts, and one volume serves all of them", async () => {
    const volumeMounts = [{ name: "config", mountPath: "/config" }];
    const containers = [container("a", { volumeMounts }), container("b", { volumeMounts }), container("c")];
    const items = [{ key: "player_initial_lives", path: "lives" }];
    const { harness } = await runPod({ spec: { ...config({ items }), containers }, before: addDemo });
    const seen = await Promise.all(["a", "b", "c"].map((name) => textsIn(harness, name)));
    expect(seen).toEqual([{ "/config/lives": "3" }, { "/config/lives": "3" }, {}]);
  });
});

describeSection("Mounted ConfigMaps are updated automatically", () => {
  test("projected keys are updated, added and removed in the running container", async () => {
    const { harness } = await runPod({
      spec: config(),
      before: (node) => addConfigMap(node, "game-demo", { a: "1", b: "2" }),
    });
    const first = harness.containerIdOf("a");
    await changeConfigMap(harness, "game-demo", { a: "one", c: "three" });
    await harness.advance("2s");
    expect(await textsIn(harness)).toEqual({ "/config/a": "one", "/config/c": "three" });
    expect(harness.containerIdOf("a")).toBe(first);
  });

  test("by default an update is propagated by a watch, without further requests", async () => {
    const { harness } = await runPod({ spec: config(), before: addDemo });
    const callsBefore = harness.kube.calls.length;
    await harness.advance("1m");
    await changeConfigMap(harness, "game-demo", { a: "1" });
    await harness.advance("2s");
    expect(await textsIn(harness)).toEqual({ "/config/a": "1" });
    const requests = harness.kube.calls.slice(callsBefore).filter((call) => call.includes("configmaps"));
    expect(requests).toEqual([]);
  });

  test("environment variables are not updated without a restart", async () => {
    const spec = withContainer({ env: [fromKey("LIVES", "player_initial_lives")] });
    const { harness } = await runPod({ spec, before: addDemo });
    await changeConfigMap(harness, "game-demo", { player_initial_lives: "9" });
    await harness.advance("2m");
    expect([environmentOf(harness), (await containerOf(harness, "a")).restartCount]).toMatchObject([{ LIVES: "3" }, 0]);
    await harness.exit("a", 1);
    await harness.advance("1m");
    expect(environmentOf(harness)).toMatchObject({ LIVES: "9" });
  });
});

describeSection("Immutable ConfigMaps", () => {
  test.each([
    [true, 0],
    [false, 1],
  ])("with immutable %p the node has %d watches of the ConfigMap", async (immutable, watches) => {
    let others = 0;
    const { harness } = await runPod({
      spec: config(),
      before: async (node) => {
        await addConfigMap(node, "game-demo", { a: "1" }, { immutable });
        others = node.kube.openWatches;
      },
    });
    await harness.advance("1m");
    expect(harness.kube.openWatches - others).toBe(watches);
    expect(await textsIn(harness)).toEqual({ "/config/a": "1" });
  });

  test("an existing pod keeps the files of a ConfigMap that is deleted", async () => {
    const { harness } = await runPod({
      spec: config(),
      before: (node) => addConfigMap(node, "game-demo", { a: "1" }, { immutable: true }),
    });
    await harness.kube.user.delete(configMaps("default"), "game-demo");
    await harness.advance("2m");
    expect(await textsIn(harness)).toEqual({ "/config/a": "1" });
  });
});

describeSection("Add ConfigMap data to a Volume", () => {
  test("path specifies the file of an item", async () => {
    const items = [{ key: "player_initial_lives", path: "keys" }];
    const { harness } = await runPod({ spec: config({ items }), before: addDemo });
    expect(await textsIn(harness)).toEqual({ "/config/keys": "3" });
  });

  test("keys can be projected to specific paths with specific permissions", async () => {
    const items = [
      { key: "player_initial_lives", path: "deep/lives", mode: 0o400 },
      { key: "ui_properties_file_name", path: "name" },
    ];
    const { harness } = await runPod({ spec: config({ items, defaultMode: 0o640 }), before: addDemo });
    expect(await modesIn(harness)).toEqual({ "/config/deep/lives": "400", "/config/name": "640" });
  });
});

describeSection("Optional references", () => {
  test("an optional ConfigMap that does not exist gives an empty volume, and its files once it exists", async () => {
    const { harness } = await runPod({ spec: config({ optional: true }) });
    expect([await harness.apiPods(), await textsIn(harness)]).toEqual([["web Running, ready: a running"], {}]);
    await addConfigMap(harness, "game-demo", { a: "1" });
    await harness.advance("2s");
    expect(await textsIn(harness)).toEqual({ "/config/a": "1" });
  });

  test("an optional key that does not exist gives no file", async () => {
    const items = ["none", "player_initial_lives"].map((key) => ({ key, path: key }));
    const { harness } = await runPod({ spec: config({ optional: true, items }), before: addDemo });
    expect(await textsIn(harness)).toEqual({ "/config/player_initial_lives": "3" });
  });
});

describeSection("Restrictions", () => {
  test("a pod that refers to a ConfigMap that does not exist does not start, and starts once it exists", async () => {
    const { harness } = await runPod({ spec: config() });
    await harness.advance("10s");
    expect([harness.runtime.sandboxes.size, (await statusOf(harness)).phase]).toEqual([0, "Pending"]);
    await addDemo(harness);
    await harness.advance("2s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });

  test("a key that does not exist prevents the pod from starting", async () => {
    const { harness } = await runPod({ spec: config({ items: [{ key: "none", path: "none" }] }), before: addDemo });
    await harness.advance("5s");
    expect(harness.runtime.sandboxes.size).toBe(0);
    expect(await mountFailures(harness)).toEqual([
      'MountVolume.SetUp failed for volume "config" : configmap references non-existent config key: none',
    ]);
  });
});
