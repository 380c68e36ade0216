// configMapAndSecretChangeDetectionStrategy: what pods see of changed objects with `Cache` and `Get`, and what is read.
import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { configMaps, secrets } from "../../kube/resource.ts";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { objectTtlAnnotation } from "../../proto/kubernetes/well-known-names.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const spec: Partial<PodSpec> = {
  containers: [
    {
      name: "a",
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent",
      env: [{ name: "COLOUR", valueFrom: { configMapKeyRef: { name: "site", key: "colour" } } }],
      volumeMounts: [{ name: "site", mountPath: "/site" }],
    },
  ],
  volumes: [{ name: "site", configMap: { name: "site" } }],
};

async function put({ kube: { user } }: AgentHarness, colour: string): Promise<void> {
  const site = { metadata: { name: "site", namespace: "default" }, data: { colour } };
  const { items } = await user.list(configMaps("default"), {});
  await (items.length === 0 ? user.create(configMaps("default"), site) : user.replace(configMaps("default"), site));
  await settlePromises();
}

/** The content of the file of the volume, and the environment of each instance of the container. */
async function shown({ disk, runtime }: AgentHarness): Promise<readonly (string | undefined)[]> {
  const path = disk.paths().find((each) => each.endsWith("/kubernetes.io~configmap/site/colour"));
  const file = path === undefined ? undefined : await disk.at("/").read(path, 100);
  const environments = [...runtime.containers.values()].map(({ config }) =>
    new TextDecoder().decode(config.envs.find(({ key }) => key === "COLOUR")?.value),
  );
  return [file, ...environments];
}

const readsIn = ({ kube }: AgentHarness) =>
  kube.calls.splice(0).filter((call) => call.endsWith("configmaps/default/site"));

for (const changeDetectionStrategy of ["Cache", "Get"] as const) {
  const node = { changeDetectionStrategy };
  apiScenario(
    `${changeDetectionStrategy}: a changed ConfigMap reaches the files of a running pod within a minute and a half, and the next container`,
    async (harness) => {
      await put(harness, "blue");
      await harness.apply("web", spec);
      await harness.advance("5s");
      await put(harness, "red");
      await harness.advance("90s");
      await harness.exit("a", 1);
      await harness.advance("5s");
    },
    async (end, harness) => {
      expect(end.api).toEqual(["web Running, ready: a running (restarts: 1)"]);
      expect(await shown(harness)).toEqual(["red", "blue", "red"]);
      expect(harness.kube.openWatches).toBe((await runInCluster(async () => {}, node)).kube.openWatches);
    },
    { stride: 3, node },
  );

  apiScenario(
    `${changeDetectionStrategy}: a pod waits for a missing Secret, and starts at its next try`,
    async (harness) => {
      await harness.apply("web", { ...spec, volumes: [{ name: "site", secret: { secretName: "site" } }] });
      await put(harness, "blue");
      await harness.advance("10s");
      const metadata = { name: "site", namespace: "default" };
      await harness.kube.user.create(secrets("default"), { metadata, data: { colour: "Z3JlZW4=" } });
      await harness.advance("20s");
    },
    async (end, harness) => {
      expect(end.api).toEqual(["web Running, ready: a running"]);
      expect((await harness.events("web")).filter((event) => event.includes("FailedMount"))).toEqual([
        expect.stringMatching(
          /^\dx Warning FailedMount: MountVolume.SetUp failed for volume "site" : secret "site" not found$/,
        ),
      ]);
    },
    { stride: 3, node },
  );

  test(`${changeDetectionStrategy}: a pod whose object may not be read waits with the API server's words, and starts when it may`, async () => {
    const forbidden = `configmaps "site" is forbidden: User "system:node:node" cannot get resource "configmaps"`;
    const harness = await runInCluster(async (on) => {
      await put(on, "blue");
      on.kube.before.get = (about) => {
        const refusal = { status: 403, serverMessage: forbidden };
        if (about.includes("configmaps")) throw new KubeError("FORBIDDEN", `GET /x: ${forbidden}`, refusal);
      };
      await on.apply("web", spec);
      await on.advance("10s");
    }, node);
    expect((await harness.events("web")).filter((event) => event.includes("FailedMount"))).toEqual([
      expect.stringMatching(
        /^\d+x Warning FailedMount: MountVolume.SetUp failed for volume "site" : configmaps "site" is forbidden: /,
      ),
    ]);
    delete harness.kube.before.get;
    await harness.advance("30s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });

  test(`${changeDetectionStrategy}: a pod without objects causes no requests, and one with a volume a request each minute`, async () => {
    const harness = await runInCluster(async (on) => {
      await put(on, "blue");
      await on.apply("plain");
      await on.apply("web", spec);
      await on.advance("10s");
    }, node);
    readsIn(harness);
    await harness.advance("10m");
    expect(readsIn(harness).length).toBe(10);
    await harness.deletePod("web");
    await harness.advance("60s");
    harness.kube.calls.splice(0);
    await harness.advance("10m");
    expect(readsIn(harness)).toEqual([]);
  });

  test(`${changeDetectionStrategy}: while the API server is away, containers start with what was read last`, async () => {
    const harness = await runInCluster(async (on) => {
      await put(on, "blue");
      await on.apply("web", spec);
      await on.advance("5m");
      on.kube.goDown();
      await on.exit("a", 1);
      await on.advance("5s");
    }, node);
    expect(await shown(harness)).toEqual(["blue", "blue", "blue"]);
  });
}

test("Get: a container that starts has what the API server has then", async () => {
  const harness = await runInCluster(
    async (on) => {
      await put(on, "blue");
      await on.apply("web", spec);
      await on.advance("5s");
      await put(on, "red");
      await on.exit("a", 1);
      await on.advance("1s");
    },
    { changeDetectionStrategy: "Get" },
  );
  expect((await shown(harness)).slice(1)).toEqual(["blue", "red"]);
});

const ttls: readonly [annotation: string, second: string][] = [
  ["300", "blue"],
  ["0", "red"],
];
for (const [annotation, second] of ttls)
  test(`Cache: with the node's annotation ${annotation} a container that starts after ten seconds has ${second}`, async () => {
    const harness = await runInCluster(
      async (on) => {
        on.nodeObject = { metadata: { name: "node", annotations: { [objectTtlAnnotation]: annotation } }, spec: {} };
        await put(on, "blue");
        await on.apply("web", spec);
        await on.advance("5s");
        await put(on, "red");
        await on.advance("5s");
        await on.exit("a", 1);
        await on.advance("1s");
      },
      { changeDetectionStrategy: "Cache" },
    );
    expect((await shown(harness)).slice(1)).toEqual(["blue", second]);
  });
