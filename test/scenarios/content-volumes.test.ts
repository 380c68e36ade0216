// Volumes whose files the agent writes: missing and changing objects, tokens, and what is left of them.
import { expect, test } from "bun:test";
import { configMaps, secrets } from "../../kube/resource.ts";
import type { PodSpec, Volume } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const SECRET_VALUE = "s3cr3t-of-the-test";

const ownSecret = (value: string) => ({
  metadata: { name: "keys", namespace: "default" },
  data: { key: Buffer.from(value).toString("base64") },
});
const ownConfigMap = (colour: string) => ({ metadata: { name: "site", namespace: "default" }, data: { colour } });

async function addObjects(harness: AgentHarness): Promise<void> {
  await harness.kube.user.create(secrets("default"), ownSecret(SECRET_VALUE));
  await harness.kube.user.create(configMaps("default"), ownConfigMap("blue"));
  await settlePromises();
}

const volumes: readonly Volume[] = [
  { name: "keys", secret: { secretName: "keys" } },
  { name: "site", configMap: { name: "site" } },
  {
    name: "kube-api-access",
    projected: {
      sources: [
        { serviceAccountToken: { path: "token", expirationSeconds: 3607 } },
        { configMap: { name: "site" } },
        { downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] } },
      ],
    },
  },
  { name: "scratch", emptyDir: { medium: "Memory" } },
];
const spec: Partial<PodSpec> = {
  containers: [
    {
      name: "a",
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent",
      volumeMounts: volumes.map(({ name }) => ({ name, mountPath: `/${name}` })),
    },
  ],
  volumes,
};

/** The files that containers see in the pods' volumes: `site/colour blue`. Tokens are shown without their text. */
async function shownFiles({ disk }: AgentHarness): Promise<readonly string[]> {
  const visible = /^\/root\/pods\/[^/]+\/volumes\/kubernetes\.io~[^/]+\/([^/]+\/[^./][^/]*)$/;
  const lines = disk.paths().flatMap((path) => {
    const [, file] = visible.exec(path) ?? [];
    return file === undefined ? [] : [[file, path] as const];
  });
  const root = disk.at("/");
  const texts = lines.map(async ([file, path]) => {
    const text = await root.read(path, 10_000);
    return `${file} ${file.endsWith("/token") ? (text === "" ? "empty" : "…") : text}`;
  });
  return (await Promise.all(texts)).toSorted();
}

/** What is left of volumes: directories, files and mounts below the directories of pods. */
const leftovers = ({ disk, mounts }: AgentHarness): readonly string[] => [
  ...disk.paths().filter((path) => path.startsWith("/root/pods/")),
  ...mounts.mountPoints,
];

const all = (colour: string, secret = SECRET_VALUE): readonly string[] => [
  `keys/key ${secret}`,
  `kube-api-access/colour ${colour}`,
  "kube-api-access/labels ",
  "kube-api-access/token …",
  `site/colour ${colour}`,
];

apiScenario(
  "a pod waits for the objects of its volumes without a sandbox, and runs as soon as they are there",
  async (harness) => {
    await harness.apply("web", spec);
    await harness.advance("10s");
    if (harness.runtime.sandboxes.size > 0) throw new Error("the pod has a sandbox before its volumes");
    await addObjects(harness);
    await harness.advance("500ms");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(await shownFiles(harness)).toEqual(all("blue"));
    const events = await harness.events("web");
    expect([
      ...new Set(events.filter((event) => event.includes("FailedMount")).map((e) => e.replace(/^\d+x /, ""))),
    ]).toEqual([
      'Warning FailedMount: MountVolume.SetUp failed for volume "keys" : secret "keys" not found',
      'Warning FailedMount: MountVolume.SetUp failed for volume "site" : configmap "site" not found',
      'Warning FailedMount: MountVolume.SetUp failed for volume "kube-api-access" : configmap "site" not found',
    ]);
    const [token = ""] = [...harness.agent.clusterSync!.objects.facts().tokens.values()].map((known) =>
      "token" in known ? known.token : "",
    );
    const texts = [...harness.log, ...events, JSON.stringify(harness.podReports())].join("\n");
    expect(token).not.toBe("");
    for (const secret of [SECRET_VALUE, token]) expect(texts).not.toContain(secret);
  },
);

apiScenario(
  "a running pod sees changed objects, and keeps deleted ones",
  async (harness) => {
    await addObjects(harness);
    await harness.apply("web", spec);
    await harness.advance("5s");
    await harness.kube.user.replace(configMaps("default"), ownConfigMap("red"));
    await harness.kube.user.delete(secrets("default"), "keys");
    await harness.advance("30s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(await shownFiles(harness)).toEqual(all("red"));
    expect(harness.runtime.containers.size).toBe(1);
  },
);

apiScenario(
  "nothing is left of the volumes of a deleted pod",
  async (harness) => {
    await addObjects(harness);
    await harness.apply("web", spec);
    await harness.advance("5s");
    await harness.deletePod("web");
    await harness.advance("60s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(leftovers(harness)).toEqual([]);
  },
);

apiScenario(
  "a pod that has ended keeps no volume",
  async (harness) => {
    await addObjects(harness);
    await harness.apply("job", { ...spec, restartPolicy: "Never" });
    await harness.advance("5s");
    await harness.exit("a", 0);
    await harness.advance("30s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["job Succeeded: a terminated Completed 0"]);
    expect([await shownFiles(harness), harness.mounts.mountPoints]).toEqual([[], []]);
  },
);

test("volumes whose mounts are lost are mounted and written again before the next container starts", async () => {
  const harness = await runInCluster(async (on) => {
    await addObjects(on);
    await on.apply("web", spec);
    await on.advance("5s");
  });
  await harness.stop();
  harness.mounts.unmountAll();
  expect(await shownFiles(harness)).toEqual(["site/colour blue"]);
  await harness.exit("a", 255);
  await harness.start();
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  expect(await shownFiles(harness)).toEqual(all("blue"));
});

test("a full disk during an update leaves the old files whole, and the update is made when there is space again", async () => {
  const harness = await runInCluster(async (on) => {
    await addObjects(on);
    await on.apply("web", spec);
    await on.advance("5s");
  });
  harness.disk.before = (verb, path) => {
    if (verb === "makeFile" && path.includes("/volumes/"))
      throw Object.assign(new Error("no space left"), { code: "ENOSPC" });
  };
  await harness.kube.user.replace(configMaps("default"), ownConfigMap("red"));
  await harness.advance("10s");
  expect(await shownFiles(harness)).toEqual(all("blue"));
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  harness.disk.before = () => {};
  await harness.advance("20s");
  expect(await shownFiles(harness)).toEqual(all("red"));
});

const finishOrders: readonly (readonly [
  sentence: string,
  meanwhile: string,
  hold: (harness: AgentHarness) => () => void,
])[] = [
  ["its sandbox starts", "files", (harness) => harness.runtime.hang("runPodSandbox")],
  [
    "the files of its volumes are written",
    "a sandbox",
    ({ disk }) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      disk.after = (verb) => (verb === "makeFile" ? promise : undefined);
      return resolve;
    },
  ],
];
for (const [sentence, meanwhile, hold] of finishOrders)
  apiScenario(
    `the volumes and the sandbox of a pod are made at once, and its container waits until ${sentence}`,
    async (harness) => {
      await addObjects(harness);
      const release = hold(harness);
      await harness.apply("web", spec);
      await harness.advance("3s");
      const { sandboxes, containers } = harness.runtime;
      const found = [
        ...(sandboxes.size > 0 ? ["a sandbox"] : []),
        ...(containers.size > 0 ? ["a container"] : []),
        ...((await shownFiles(harness)).length > 0 ? ["files"] : []),
      ].join(", ");
      release();
      await harness.advance("3s");
      if (found !== meanwhile) throw new Error(`the pod should have ${meanwhile}, and has ${found || "nothing"}`);
    },
    async (end, harness) => {
      expect(end.api).toEqual(["web Running, ready: a running"]);
      expect(await shownFiles(harness)).toEqual(all("blue"));
      expect(harness.runtime.containers.size).toBe(1);
    },
  );
