// Access of pods to images that were pulled with another pod's credentials (KEP-2535).
import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { pods, secrets } from "../../kube/resource.ts";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, createInCluster, podsWithContainers, runInCluster } from "./api-scenario.ts";
import { testDeaths } from "./harness/death-tests.ts";
import type { HarnessOptions } from "./harness/harness-options.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";

const IMAGE = "registry.example/app:1";
const CREDENTIALS = "captain:let me in";

function addPrivateImage({ runtime }: AgentHarness): void {
  runtime.registry.set(IMAGE, undefined);
  runtime.privateImages.set(IMAGE, CREDENTIALS);
}

const dataOf = (login: string) => {
  const config = JSON.stringify({ auths: { "registry.example": { auth: btoa(login) } } });
  return { ".dockerconfigjson": btoa(config) };
};

async function addPullSecret(harness: AgentHarness, name: string, login: string): Promise<void> {
  const type = "kubernetes.io/dockerconfigjson";
  const object = { metadata: { name, namespace: "default" }, type, data: dataOf(login) };
  await harness.kube.user.create(secrets("default"), object);
  await settlePromises();
}

type Policy = NonNullable<Pod["spec"]["containers"][number]["imagePullPolicy"]>;

const specOf = (names: readonly string[], imagePullPolicy: Policy = "IfNotPresent"): Partial<PodSpec> => ({
  containers: [{ name: "a", image: IMAGE, imagePullPolicy }],
  imagePullSecrets: names.map((name) => ({ name })),
});

/** Lets the pod `owner` pull the image with its Secret. */
async function pulledByOwner(harness: AgentHarness): Promise<void> {
  addPrivateImage(harness);
  await addPullSecret(harness, "right", CREDENTIALS);
  await harness.apply("owner", specOf(["right"]));
  await harness.advance("2s");
}

const pullEventsOf = async (harness: AgentHarness, name: string) =>
  (await harness.events(name)).map((event) => event.replace(/^\d+x /, "")).filter((event) => /pull|image/i.test(event));
const waitingStateOf = (harness: AgentHarness, name: string) =>
  harness.podReports().find(({ pod }) => pod.metadata.name === name)?.status.containerStatuses?.[0]?.state?.waiting;

test("a pod without credentials may not use an image pulled with another pod's, with any pull policy", async () => {
  const harness = await runInCluster(async (on) => {
    await pulledByOwner(on);
    await on.apply("thief", specOf([]));
    await on.apply("quiet", specOf([], "Never"));
    await on.advance("8s");
  });
  expect(await harness.apiPods()).toEqual([
    "owner Running, ready: a running",
    "quiet Pending: a waiting ErrImageNeverPull",
    "thief Pending: a waiting ImagePullBackOff",
  ]);
  expect(await pullEventsOf(harness, "thief")).toEqual([
    `Normal Pulling: Pulling image "${IMAGE}"`,
    `Warning Failed: Failed to pull image "${IMAGE}": failed to resolve reference "${IMAGE}": pull access denied`,
    "Warning Failed: Error: ErrImagePull",
    `Normal BackOff: Back-off pulling image "${IMAGE}"`,
    "Warning Failed: Error: ImagePullBackOff",
  ]);
  expect(waitingStateOf(harness, "quiet")?.message).toBe(
    `Container image "${IMAGE}" is not present with pull policy of Never`,
  );
});

apiScenario(
  "pods with the same credentials use the image without a pull, by the same or another Secret, also with Never",
  async (harness) => {
    await pulledByOwner(harness);
    await addPullSecret(harness, "copy", CREDENTIALS);
    await harness.apply("same", specOf(["right"]));
    await harness.apply("copy", specOf(["copy"]));
    await harness.apply("quiet", specOf(["copy"], "Never"));
    await harness.advance("15s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["copy", "owner", "quiet", "same"].map((name) => `${name} Running, ready: a running`));
    expect(harness.runtime.pullCredentials).toEqual([CREDENTIALS]);
    for (const name of ["copy", "quiet", "same"])
      expect(await pullEventsOf(harness, name)).toEqual([
        `Normal Pulled: Container image "${IMAGE}" already present on machine and can be accessed by the pod`,
      ]);
  },
  { stride: 5 },
);

testDeaths({
  name: "a pod without the credentials never runs the image",
  create: createInCluster,
  async run(harness) {
    await harness.start();
    addPrivateImage(harness);
    await addPullSecret(harness, "right", CREDENTIALS);
    await harness.apply("owner", specOf(["right"]));
    await harness.apply("thief", specOf([]));
    await harness.apply("quiet", specOf([], "Never"));
    await harness.advance("90s");
  },
  endOf: podsWithContainers,
  expectEnd: (end) => expect(end).toEqual(["owner"]),
});

test("a pod with other credentials gets the image after a successful pull, which is recorded", async () => {
  const harness = await runInCluster(async (on) => {
    await pulledByOwner(on);
    on.runtime.privateImages.set(IMAGE, "mate:me too");
    await addPullSecret(on, "mate", "mate:me too");
    await on.apply("mate", specOf(["mate"]));
    await on.apply("second", specOf(["mate"], "Never"));
    await on.advance("61s");
  });
  expect(harness.runtime.pullCredentials).toEqual([CREDENTIALS, "mate:me too"]);
  expect(await harness.apiPods()).toEqual(
    ["mate", "owner", "second"].map((name) => `${name} Running, ready: a running`),
  );
});

test("while the API server is down a pod restarts with the image that its Secret pulled; other pods still wait", async () => {
  const harness = await runInCluster(async (on) => {
    await pulledByOwner(on);
    await on.apply("thief", specOf([]));
    await on.advance("5s");
    await on.stop();
    await on.exit("a", 1);
    on.kube.goDown();
    await on.start();
    await on.advance("30s");
  });
  const lines = harness
    .podReports()
    .map(({ pod, status }) => [pod.metadata.name, status.phase, status.containerStatuses?.[0]?.restartCount]);
  expect(lines).toEqual([
    ["owner", "Running", 1],
    ["thief", "Pending", 0],
  ]);
});

test("an image that was removed and later preloaded by another client may be used by all pods", async () => {
  const harness = await runInCluster(async (on) => {
    await pulledByOwner(on);
    await on.apply("quiet", specOf([], "Never"));
    await on.advance("6m");
    expect(await on.apiPods()).toEqual([
      "owner Running, ready: a running",
      "quiet Pending: a waiting ErrImageNeverPull",
    ]);
    await on.runtime.removeImage(IMAGE);
    await on.advance("6m");
    on.runtime.addImage(IMAGE);
    await on.advance("1m");
  });
  expect(await harness.apiPods()).toEqual(["owner", "quiet"].map((name) => `${name} Running, ready: a running`));
  expect(harness.runtime.pullCredentials).toEqual([CREDENTIALS]);
});

test("a preloaded image stays usable by all pods after a pull of it was cancelled", async () => {
  const harness = await runInCluster(async (on) => {
    on.runtime.addImage(IMAGE);
    on.runtime.before.pullImage = () => new Promise(() => {});
    await on.apply("eager", specOf([], "Always"));
    await on.advance("2s");
    await on.deletePod("eager", 0);
    await on.advance("2s");
    await on.apply("one", specOf([]));
    await on.advance("5s");
  });
  expect(await harness.apiPods()).toEqual(["one Running, ready: a running"]);
});

test("a preloaded image and one pulled without credentials may be used by all pods", async () => {
  const harness = await runInCluster(async (on) => {
    on.runtime.registry.set("free:1", undefined);
    on.runtime.addImage(IMAGE);
    await on.apply("one", specOf([]));
    await on.apply("free", { containers: [{ name: "a", image: "free:1" }] });
    await on.advance("2s");
    await on.apply("other", { containers: [{ name: "a", image: "free:1", imagePullPolicy: "Never" }] });
    await on.advance("2s");
  });
  expect(await harness.apiPods()).toEqual(["free", "one", "other"].map((name) => `${name} Running, ready: a running`));
});

test("a preloaded image stays usable by all pods when the registry does not answer", async () => {
  const silence = () => new CriError("DEADLINE_EXCEEDED", "PullImage", "dial tcp 192.0.2.1:443: i/o timeout");
  const harness = await runInCluster(async (on) => {
    on.runtime.addImage(IMAGE);
    on.runtime.failures.pullImage = Array.from({ length: 20 }, silence);
    await on.apply("eager", specOf([], "Always"));
    await on.advance("2s");
    await on.apply("one", specOf([]));
    await on.advance("2s");
    await on.stop();
    await on.start();
    await on.apply("quiet", specOf([], "Never"));
    await on.advance("2s");
  });
  expect(await harness.apiPods()).toEqual([
    expect.stringMatching(/^eager Pending: a waiting (ErrImagePull|ImagePullBackOff)$/),
    "one Running, ready: a running",
    "quiet Running, ready: a running",
  ]);
});

test("a preloaded image stays usable by all pods when a pod is force-deleted during its pull", async () => {
  const harness = await runInCluster(async (on) => {
    on.runtime.addImage(IMAGE);
    on.runtime.hang("pullImage");
    await on.apply("eager", specOf([], "Always"));
    await on.advance("2s");
    await on.kube.user.delete(pods("default"), "eager", { gracePeriodSeconds: 0 });
    await on.advance("2s");
    await on.apply("one", specOf([], "Never"));
    await on.advance("2s");
  });
  expect(await harness.apiPods()).toEqual(["one Running, ready: a running"]);
});

test("the next credentials are tried after a pull with the first ones times out", async () => {
  const harness = await runInCluster(async (on) => {
    addPrivateImage(on);
    await addPullSecret(on, "wrong", "captain:guess");
    await addPullSecret(on, "right", CREDENTIALS);
    on.runtime.failures.pullImage = [new CriError("DEADLINE_EXCEEDED", "PullImage", "i/o timeout")];
    await on.apply("owner", specOf(["wrong", "right"]));
    await on.advance("500ms");
  });
  expect(await harness.apiPods()).toEqual(["owner Running, ready: a running"]);
});

const withPolicy = async (
  options: HarnessOptions,
  run: (harness: AgentHarness) => Promise<void>,
): Promise<AgentHarness> => {
  const harness = await createHarness({ isInCluster: true, ...options });
  await harness.start();
  await run(harness);
  return harness;
};

test("with NeverVerify all images on the node may be used by all pods", async () => {
  const harness = await withPolicy({ imageVerification: "NeverVerify" }, async (on) => {
    await pulledByOwner(on);
    await on.apply("thief", specOf([], "Never"));
    await on.advance("2s");
  });
  expect(await harness.apiPods()).toContain("thief Running, ready: a running");
});

test("with AlwaysVerify even a preloaded image needs a successful pull with the pod's credentials", async () => {
  const harness = await withPolicy({ imageVerification: "AlwaysVerify" }, async (on) => {
    on.runtime.addImage(IMAGE);
    addPrivateImage(on);
    await addPullSecret(on, "right", CREDENTIALS);
    await on.apply("owner", specOf(["right"]));
    await on.apply("thief", specOf([]));
    await on.advance("2s");
  });
  expect(await harness.apiPods()).toEqual([
    "owner Running, ready: a running",
    "thief Pending: a waiting ImagePullBackOff",
  ]);
});

test("an image pulled with the node's own credentials may be used by all pods", async () => {
  const harness = await createHarness();
  addPrivateImage(harness);
  const config = JSON.stringify({ auths: { "registry.example": { auth: btoa(CREDENTIALS) } } });
  await harness.disk.at("/").write("root/config.json", config, 0o600);
  await harness.start();
  await harness.setManifests(makePod("one", { containers: [{ name: "a", image: IMAGE }] }));
  await harness.advance("2s");
  const never = { name: "a", image: IMAGE, imagePullPolicy: "Never" as const };
  await harness.setManifests(
    makePod("one", { containers: [{ name: "a", image: IMAGE }] }),
    makePod("two", { containers: [never] }),
  );
  await harness.advance("2s");
  expect(harness.podReports().map(({ status }) => status.phase)).toEqual(["Running", "Running"]);
});

test("no credentials appear in the image records, the log or the events", async () => {
  const harness = await runInCluster(pulledByOwner);
  const files = harness.disk.paths().filter((path) => path.includes("image_manager/") && path.includes("sha256-"));
  expect(files).toHaveLength(1);
  const texts = await Promise.all(files.map((path) => harness.disk.at("/").read(path, 1 << 20)));
  expect(texts.join("\n")).toContain('"name":"right"');
  const allText = [...texts, ...harness.log, ...(await harness.events("owner"))].join("\n");
  expect(allText).not.toMatch(new RegExp(`let me in|captain|${btoa(CREDENTIALS).slice(0, 12)}`));
});
