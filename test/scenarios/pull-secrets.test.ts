// Private images: by whose login they are pulled, what is told of a Secret that is missing, and what happens when it comes.
import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { secrets } from "../../kube/resource.ts";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import { apiScenario, play } from "./api-scenario.ts";
import { createStage, makePod, type Stage } from "./harness.ts";

const IMAGE = "registry.example/app:1";
const LOGIN = "captain:let me in";

const dockerConfig = (login: string) =>
  JSON.stringify({ auths: { "registry.example": { auth: Buffer.from(login).toString("base64") } } });

function offerImage({ runtime }: Stage): void {
  runtime.registry.set(IMAGE, undefined);
  runtime.privateImages.set(IMAGE, LOGIN);
}

async function addPullSecret(stage: Stage, name: string, login: string): Promise<void> {
  await stage.kube.user.create(secrets("default"), {
    metadata: { name, namespace: "default" },
    type: "kubernetes.io/dockerconfigjson",
    data: { ".dockerconfigjson": Buffer.from(dockerConfig(login)).toString("base64") },
  });
  await rest();
}

const privateSpec = (
  names: readonly string[],
  more: Partial<Pod["spec"]["containers"][number]> = {},
): Partial<PodSpec> => ({
  containers: [{ name: "a", image: IMAGE, imagePullPolicy: "IfNotPresent", ...more }],
  imagePullSecrets: names.map((name) => ({ name })),
});

apiScenario(
  "a private image is pulled by the login of the pod's Secret, the ones before it being tried first",
  async (stage) => {
    offerImage(stage);
    await addPullSecret(stage, "wrong", "captain:guess");
    await addPullSecret(stage, "right", LOGIN);
    await stage.apply("web", privateSpec(["wrong", "right"]));
    await stage.advance("20s");
  },
  async (end, stage) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(stage.runtime.logins).toEqual(["captain:guess", LOGIN]);
    const events = await stage.events("web");
    expect(events.filter((event) => event.includes("Warning"))).toEqual([]);
    expect([...stage.story, ...events].join("\n")).not.toMatch(/guess|let me in/);
  },
);

apiScenario(
  "a Secret that is missing is told, the pull is tried without it, and again at once when it is there",
  async (stage) => {
    offerImage(stage);
    await stage.apply("web", privateSpec(["later"]));
    await stage.advance("4s");
    await addPullSecret(stage, "later", LOGIN);
    await stage.advance("1s");
  },
  async (end, stage) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    const events = await stage.events("web");
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

test("where no login works all that was said is told, each once", async () => {
  const stage = await play(async (on) => {
    offerImage(on);
    await addPullSecret(on, "one", "a:1");
    await addPullSecret(on, "two", "b:2");
    await on.apply("web", privateSpec(["one", "two"]));
    await on.advance("2s");
  });
  const { waiting } = stage.pods()[0]?.status.containerStatuses?.[0]?.state ?? {};
  expect(waiting).toEqual({
    reason: "ErrImagePull",
    message: `failed to resolve reference "${IMAGE}": pull access denied`,
  });
});

test("a Secret that cannot be read says so, and no more of itself than its name", async () => {
  const stage = await play(async (on) => {
    offerImage(on);
    await addPullSecret(on, "torn", "no colon at all");
    await on.apply("web", privateSpec(["torn"]));
    await on.advance("2s");
  });
  const { waiting } = stage.pods()[0]?.status.containerStatuses?.[0]?.state ?? {};
  expect(waiting?.reason).toBe("ErrImagePull");
  expect(waiting?.message).toStartWith("image pull secret default/torn: .dockerconfigjson cannot be read");
});

test("a pod without a login gets nothing of a pull that goes on by another pod's", async () => {
  const stage = await play(async (on) => {
    offerImage(on);
    await addPullSecret(on, "right", LOGIN);
    on.runtime.before.pullImage = () => new Promise((resolve) => void on.clock.wakeAt(on.clock.now() + 3_000, resolve));
    await on.apply("web", privateSpec(["right"], { imagePullPolicy: "Always" }));
    await on.apply("thief", privateSpec([], { imagePullPolicy: "Always" }));
    await on.advance("5s");
  });
  expect(await stage.shown()).toEqual(["thief Pending: a waiting ErrImagePull", "web Running, ready: a running"]);
});

test("static pods, and pods without Secrets of their own, have the node's login", async () => {
  const stage = await createStage();
  offerImage(stage);
  await stage.disk.at("/").write("root/config.json", dockerConfig(LOGIN), 0o600);
  await stage.start();
  await stage.offer(makePod("web", { containers: [{ name: "a", image: IMAGE }] }));
  await stage.advance("5s");
  expect([stage.runtime.logins, stage.pods()[0]?.status.phase]).toEqual([[LOGIN], "Running"]);
});

test("while the API server is away a pull is tried without the Secret after a second", async () => {
  const stage = await play(async (on) => {
    offerImage(on);
    await addPullSecret(on, "right", LOGIN);
    await on.apply("web", privateSpec(["right"], { imagePullPolicy: "Always" }));
    await on.advance("5s");
    await on.stop();
    await on.exit("a", 1);
    on.kube.goDown();
    await on.start();
    await on.advance("30s");
  });
  expect(stage.runtime.logins.slice(0, 2)).toEqual([LOGIN, undefined]);
  stage.kube.comeBack();
  await stage.advance("3s");
  expect(stage.runtime.logins.at(-1)).toBe(LOGIN);
  expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 1)"]);
});

test("why the registry is not to be had is said of the image as each container names it, and in the runtime's own words by the event", async () => {
  const stage = await play(async (on) => {
    const failure = () => new CriError("UNKNOWN", "PullImage", "RegistryUnavailable: connection refused");
    on.runtime.failures.pullImage = Array.from({ length: 9 }, failure);
    const named = (name: string, image: string) => ({ name, image, imagePullPolicy: "IfNotPresent" as const });
    await on.apply("web", {
      containers: [named("a", "registry.example/app"), named("b", "registry.example/app:latest")],
    });
    await on.advance("1s");
    expect(waitingIn(on)).toEqual([
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
  expect(waitingIn(stage)[0]).toEqual([
    "ImagePullBackOff",
    'Back-off pulling image "registry.example/app": RegistryUnavailable: image pull failed for registry.example/app because the registry is unavailable: connection refused',
  ]);
  expect(await stage.events("web")).toContain(
    '1x Warning Failed: Failed to pull image "registry.example/app": RegistryUnavailable: connection refused',
  );
});

const waitingIn = (stage: Stage) =>
  (stage.pods()[0]?.status.containerStatuses ?? []).map(({ state }) => [
    state?.waiting?.reason,
    state?.waiting?.message,
  ]);
