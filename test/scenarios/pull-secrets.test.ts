// Pulls of private images with imagePullSecrets: the order of the Secrets, missing and malformed ones, and the node's
// own credentials.
import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { secrets } from "../../kube/resource.ts";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";

const IMAGE = "registry.example/app:1";
const CREDENTIALS = "captain:let me in";

const dockerConfig = (login: string) =>
  JSON.stringify({ auths: { "registry.example": { auth: Buffer.from(login).toString("base64") } } });

function addPrivateImage({ runtime }: AgentHarness): void {
  runtime.registry.set(IMAGE, undefined);
  runtime.privateImages.set(IMAGE, CREDENTIALS);
}

async function addPullSecret(harness: AgentHarness, name: string, login: string): Promise<void> {
  await harness.kube.user.create(secrets("default"), {
    metadata: { name, namespace: "default" },
    type: "kubernetes.io/dockerconfigjson",
    data: { ".dockerconfigjson": Buffer.from(dockerConfig(login)).toString("base64") },
  });
  await settlePromises();
}

const privateSpec = (
  names: readonly string[],
  more: Partial<Pod["spec"]["containers"][number]> = {},
): Partial<PodSpec> => ({
  containers: [{ name: "a", image: IMAGE, imagePullPolicy: "IfNotPresent", ...more }],
  imagePullSecrets: names.map((name) => ({ name })),
});

apiScenario(
  "a private image is pulled with the pod's Secrets, tried in their order",
  async (harness) => {
    addPrivateImage(harness);
    await addPullSecret(harness, "wrong", "captain:guess");
    await addPullSecret(harness, "right", CREDENTIALS);
    await harness.apply("web", privateSpec(["wrong", "right"]));
    await harness.advance("20s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(harness.runtime.pullCredentials).toEqual(["captain:guess", CREDENTIALS]);
    const events = await harness.events("web");
    expect(events.filter((event) => event.includes("Warning"))).toEqual([]);
    expect([...harness.log, ...events].join("\n")).not.toMatch(/guess|let me in/);
  },
);

apiScenario(
  "the private image of a volume is pulled with the pod's Secrets",
  async (harness) => {
    addPrivateImage(harness);
    await addPullSecret(harness, "right", CREDENTIALS);
    const volumes = [{ name: "model", image: { reference: IMAGE, pullPolicy: "IfNotPresent" as const } }];
    const mounting = { image: "busybox:1", volumeMounts: [{ name: "model", mountPath: "/model" }] };
    await harness.apply("web", { ...privateSpec(["right"], mounting), volumes });
    await harness.advance("20s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(harness.runtime.pullCredentials).toEqual([CREDENTIALS]);
    expect([...harness.log, ...(await harness.events("web"))].join("\n")).not.toMatch(/let me in/);
  },
  { stride: 3 },
);

apiScenario(
  "a missing Secret causes an event and a pull without it, and the pull is retried at once when it is created",
  async (harness) => {
    addPrivateImage(harness);
    await harness.apply("web", privateSpec(["later"]));
    await harness.advance("4s");
    await addPullSecret(harness, "later", CREDENTIALS);
    await harness.advance("1s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    const events = await harness.events("web");
    expect(events[0]).toMatch(
      /^\dx Warning FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets \(later\); attempting to pull the image may not succeed\.$/,
    );
    expect(events.slice(1, 4).map((event) => event.replace(/^\dx /, ""))).toEqual([
      `Normal Pulling: Pulling image "${IMAGE}"`,
      `Warning Failed: Failed to pull image "${IMAGE}": failed to resolve reference "${IMAGE}": pull access denied`,
      "Warning Failed: Error: ErrImagePull",
    ]);
  },
);

test("when no credentials work the error lists each distinct failure once", async () => {
  const harness = await runInCluster(async (on) => {
    addPrivateImage(on);
    await addPullSecret(on, "one", "a:1");
    await addPullSecret(on, "two", "b:2");
    await on.apply("web", privateSpec(["one", "two"]));
    await on.advance("500ms");
  });
  const { waiting } = harness.podReports()[0]?.status.containerStatuses?.[0]?.state ?? {};
  expect(waiting).toEqual({
    reason: "ErrImagePull",
    message: `failed to resolve reference "${IMAGE}": pull access denied`,
  });
});

test("the error of a malformed Secret names the Secret and no content", async () => {
  const harness = await runInCluster(async (on) => {
    addPrivateImage(on);
    await addPullSecret(on, "torn", "no colon at all");
    await on.apply("web", privateSpec(["torn"]));
    await on.advance("500ms");
  });
  const { waiting } = harness.podReports()[0]?.status.containerStatuses?.[0]?.state ?? {};
  expect(waiting?.reason).toBe("ErrImagePull");
  expect(waiting?.message).toStartWith("image pull secret default/torn: .dockerconfigjson cannot be read");
});

test("a pod without credentials does not share a pull with another pod's credentials", async () => {
  const harness = await runInCluster(async (on) => {
    addPrivateImage(on);
    await addPullSecret(on, "right", CREDENTIALS);
    on.runtime.before.pullImage = () => new Promise((resolve) => void on.clock.wakeAt(on.clock.now() + 3_000, resolve));
    await on.apply("web", privateSpec(["right"], { imagePullPolicy: "Always" }));
    await on.apply("thief", privateSpec([], { imagePullPolicy: "Always" }));
    await on.advance("5s");
  });
  expect(await harness.apiPods()).toEqual([
    "thief Pending: a waiting ImagePullBackOff",
    "web Running, ready: a running",
  ]);
});

test("a static pod pulls with the node's own credentials", async () => {
  const harness = await createHarness();
  addPrivateImage(harness);
  await harness.disk.at("/").write("root/config.json", dockerConfig(CREDENTIALS), 0o600);
  await harness.start();
  await harness.setManifests(makePod("web", { containers: [{ name: "a", image: IMAGE }] }));
  await harness.advance("5s");
  expect([harness.runtime.pullCredentials, harness.podReports()[0]?.status.phase]).toEqual([[CREDENTIALS], "Running"]);
});

test("while the API server is down a pull is tried without the Secret after a second", async () => {
  const harness = await runInCluster(async (on) => {
    addPrivateImage(on);
    await addPullSecret(on, "right", CREDENTIALS);
    await on.apply("web", privateSpec(["right"], { imagePullPolicy: "Always" }));
    await on.advance("5s");
    await on.stop();
    await on.exit("a", 1);
    on.kube.goDown();
    await on.start();
    await on.advance("30s");
  });
  expect(harness.runtime.pullCredentials.slice(0, 2)).toEqual([CREDENTIALS, undefined]);
  harness.kube.comeBack();
  await harness.advance("3s");
  expect(harness.runtime.pullCredentials.at(-1)).toBe(CREDENTIALS);
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
});

test("RegistryUnavailable names the image as each container spells it; the event has the runtime's message", async () => {
  const harness = await runInCluster(async (on) => {
    const failure = () => new CriError("UNKNOWN", "PullImage", "RegistryUnavailable: connection refused");
    on.runtime.failures.pullImage = Array.from({ length: 9 }, failure);
    const named = (name: string, image: string) => ({ name, image, imagePullPolicy: "IfNotPresent" as const });
    await on.apply("web", {
      containers: [named("a", "registry.example/app"), named("b", "registry.example/app:latest")],
    });
    await on.advance("500ms");
    expect(waitingStates(on)).toEqual([
      [
        "RegistryUnavailable",
        "image pull failed for registry.example/app because the registry is unavailable: connection refused",
      ],
      [
        "RegistryUnavailable",
        "image pull failed for registry.example/app:latest because the registry is unavailable: connection refused",
      ],
    ]);
    await on.advance("6s");
  });
  expect(waitingStates(harness)[0]).toEqual([
    "ImagePullBackOff",
    'Back-off pulling image "registry.example/app": RegistryUnavailable: image pull failed for registry.example/app because the registry is unavailable: connection refused',
  ]);
  expect(await harness.events("web")).toContain(
    '1x Warning Failed: Failed to pull image "registry.example/app": RegistryUnavailable: connection refused',
  );
});

const waitingStates = (harness: AgentHarness) =>
  (harness.podReports()[0]?.status.containerStatuses ?? []).map(({ state }) => [
    state?.waiting?.reason,
    state?.waiting?.message,
  ]);
