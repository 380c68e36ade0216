// Images that are on the node already, and were pulled by somebody's login: who else may use them (KEP-2535).
import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { pods, secrets } from "../../kube/resource.ts";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import { apiScenario, play } from "./api-scenario.ts";
import { createStage, makePod, type Stage, type StageOptions } from "./harness.ts";

const IMAGE = "registry.example/app:1";
const LOGIN = "captain:let me in";

function offerImage({ runtime }: Stage): void {
  runtime.registry.set(IMAGE, undefined);
  runtime.privateImages.set(IMAGE, LOGIN);
}

const dataOf = (login: string) => {
  const config = JSON.stringify({ auths: { "registry.example": { auth: btoa(login) } } });
  return { ".dockerconfigjson": btoa(config) };
};

async function addPullSecret(stage: Stage, name: string, login: string): Promise<void> {
  const type = "kubernetes.io/dockerconfigjson";
  const object = { metadata: { name, namespace: "default" }, type, data: dataOf(login) };
  await stage.kube.user.create(secrets("default"), object);
  await rest();
}

type Policy = NonNullable<Pod["spec"]["containers"][number]["imagePullPolicy"]>;

const specOf = (names: readonly string[], imagePullPolicy: Policy = "IfNotPresent"): Partial<PodSpec> => ({
  containers: [{ name: "a", image: IMAGE, imagePullPolicy }],
  imagePullSecrets: names.map((name) => ({ name })),
});

/** The image is here by the pod `owner` and its Secret. */
async function pulledByOwner(stage: Stage): Promise<void> {
  offerImage(stage);
  await addPullSecret(stage, "right", LOGIN);
  await stage.apply("owner", specOf(["right"]));
  await stage.advance("2s");
}

const toldOf = async (stage: Stage, name: string) =>
  (await stage.events(name)).map((event) => event.replace(/^\d+x /, "")).filter((event) => /pull|image/i.test(event));
const waitingOf = (stage: Stage, name: string) =>
  stage.pods().find(({ pod }) => pod.metadata.name === name)?.status.containerStatuses?.[0]?.state?.waiting;

test("a pod without a login does not get what another pod's login has brought, nor does one that never pulls", async () => {
  const stage = await play(async (on) => {
    await pulledByOwner(on);
    await on.apply("thief", specOf([]));
    await on.apply("quiet", specOf([], "Never"));
    await on.advance("8s");
  });
  expect(await stage.shown()).toEqual([
    "owner Running, ready: a running",
    "quiet Pending: a waiting ErrImageNeverPull",
    "thief Pending: a waiting ImagePullBackOff",
  ]);
  expect(await toldOf(stage, "thief")).toEqual([
    `Normal Pulling: Pulling image "${IMAGE}"`,
    `Warning Failed: Failed to pull image "${IMAGE}": failed to resolve reference "${IMAGE}": pull access denied`,
    "Warning Failed: Error: ErrImagePull",
    `Normal BackOff: Back-off pulling image "${IMAGE}"`,
    "Warning Failed: Error: ImagePullBackOff",
  ]);
  expect(waitingOf(stage, "quiet")?.message).toBe(
    `Container image "${IMAGE}" is not present with pull policy of Never`,
  );
});

apiScenario(
  "pods with the login use the image without a pull of their own: by the same Secret, by another one, never pulling",
  async (stage) => {
    await pulledByOwner(stage);
    await addPullSecret(stage, "copy", LOGIN);
    await stage.apply("same", specOf(["right"]));
    await stage.apply("copy", specOf(["copy"]));
    await stage.apply("quiet", specOf(["copy"], "Never"));
    await stage.advance("15s");
  },
  async (end, stage) => {
    expect(end.api).toEqual(["copy", "owner", "quiet", "same"].map((name) => `${name} Running, ready: a running`));
    expect(stage.runtime.logins).toEqual([LOGIN]);
    for (const name of ["copy", "quiet", "same"])
      expect(await toldOf(stage, name)).toEqual([
        `Normal Pulled: Container image "${IMAGE}" already present on machine and can be accessed by the pod`,
      ]);
  },
  { apart: 5 },
);

test("whatever call the agent dies after, a pod without the login never runs the image", async () => {
  const run = async (stage: Stage) => {
    offerImage(stage);
    await addPullSecret(stage, "right", LOGIN);
    await stage.apply("owner", specOf(["right"]));
    await stage.apply("thief", specOf([]));
    await stage.apply("quiet", specOf([], "Never"));
    await stage.advance("90s");
  };
  const whole = await play(run);
  for (let call = 0; call < whole.calls; call += Number(process.env["DIE_EVERY"] ?? 1)) {
    const { runtime } = await play(run, call);
    const pods = [...runtime.containers.values()].map(({ sandbox }) => sandbox.config.metadata?.name);
    expect({ call, pods: [...new Set(pods)] }).toEqual({ call, pods: ["owner"] });
  }
}, 60_000);

test("a pod whose own login the registry takes gets it by asking, and is written down", async () => {
  const stage = await play(async (on) => {
    await pulledByOwner(on);
    on.runtime.privateImages.set(IMAGE, "mate:me too");
    await addPullSecret(on, "mate", "mate:me too");
    await on.apply("mate", specOf(["mate"]));
    await on.apply("second", specOf(["mate"], "Never"));
    await on.advance("61s");
  });
  expect(stage.runtime.logins).toEqual([LOGIN, "mate:me too"]);
  expect(await stage.shown()).toEqual(["mate", "owner", "second"].map((name) => `${name} Running, ready: a running`));
});

test("while the API server is away a pod starts again from the image that its Secret has brought, and nobody else does", async () => {
  const stage = await play(async (on) => {
    await pulledByOwner(on);
    await on.apply("thief", specOf([]));
    await on.advance("5s");
    await on.stop();
    await on.exit("a", 1);
    on.kube.goDown();
    await on.start();
    await on.advance("30s");
  });
  const lines = stage
    .pods()
    .map(({ pod, status }) => [pod.metadata.name, status.phase, status.containerStatuses?.[0]?.restartCount]);
  expect(lines).toEqual([
    ["owner", "Running", 1],
    ["thief", "Pending", 0],
  ]);
});

test("an image that was removed from the node, and put there by somebody else later, is anybody's", async () => {
  const stage = await play(async (on) => {
    await pulledByOwner(on);
    await on.apply("quiet", specOf([], "Never"));
    await on.advance("6m");
    expect(await on.shown()).toEqual(["owner Running, ready: a running", "quiet Pending: a waiting ErrImageNeverPull"]);
    await on.runtime.removeImage(IMAGE);
    await on.advance("6m");
    on.runtime.addImage(IMAGE);
    await on.advance("1m");
  });
  expect(await stage.shown()).toEqual(["owner", "quiet"].map((name) => `${name} Running, ready: a running`));
  expect(stage.runtime.logins).toEqual([LOGIN]);
});

test("an image that somebody has put there stays anybody's when a pull of it is given up", async () => {
  const stage = await play(async (on) => {
    on.runtime.addImage(IMAGE);
    on.runtime.before.pullImage = () => new Promise(() => {});
    await on.apply("eager", specOf([], "Always"));
    await on.advance("2s");
    await on.remove("eager", 0);
    await on.advance("2s");
    await on.apply("one", specOf([]));
    await on.advance("5s");
  });
  expect(await stage.shown()).toEqual(["one Running, ready: a running"]);
});

test("an image that somebody has put there is anybody's, and so is one that needs no login", async () => {
  const stage = await play(async (on) => {
    on.runtime.registry.set("free:1", undefined);
    on.runtime.addImage(IMAGE);
    await on.apply("one", specOf([]));
    await on.apply("free", { containers: [{ name: "a", image: "free:1" }] });
    await on.advance("2s");
    await on.apply("other", { containers: [{ name: "a", image: "free:1", imagePullPolicy: "Never" }] });
    await on.advance("2s");
  });
  expect(await stage.shown()).toEqual(["free", "one", "other"].map((name) => `${name} Running, ready: a running`));
});

test("a registry that does not answer takes an image that somebody has put there from nobody", async () => {
  const silence = () => new CriError("DEADLINE_EXCEEDED", "PullImage", "dial tcp 192.0.2.1:443: i/o timeout");
  const stage = await play(async (on) => {
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
  expect(await stage.shown()).toEqual([
    expect.stringMatching(/^eager Pending: a waiting (ErrImagePull|ImagePullBackOff)$/),
    "one Running, ready: a running",
    "quiet Running, ready: a running",
  ]);
});

test("nor does a pod that is deleted while it pulls the image anew", async () => {
  const stage = await play(async (on) => {
    on.runtime.addImage(IMAGE);
    on.runtime.hang("pullImage");
    await on.apply("eager", specOf([], "Always"));
    await on.advance("2s");
    await on.kube.user.delete(pods("default"), "eager", { gracePeriodSeconds: 0 });
    await on.advance("2s");
    await on.apply("one", specOf([], "Never"));
    await on.advance("2s");
  });
  expect(await stage.shown()).toEqual(["one Running, ready: a running"]);
});

test("a login by which the registry is not reached keeps the next one from nothing", async () => {
  const stage = await play(async (on) => {
    offerImage(on);
    await addPullSecret(on, "wrong", "captain:guess");
    await addPullSecret(on, "right", LOGIN);
    on.runtime.failures.pullImage = [new CriError("DEADLINE_EXCEEDED", "PullImage", "i/o timeout")];
    await on.apply("owner", specOf(["wrong", "right"]));
    await on.advance("500ms");
  });
  expect(await stage.shown()).toEqual(["owner Running, ready: a running"]);
});

const withPolicy = async (options: StageOptions, run: (stage: Stage) => Promise<void>): Promise<Stage> => {
  const stage = await createStage({ isInCluster: true, ...options });
  await stage.start();
  await run(stage);
  return stage;
};

test("under NeverVerify whatever is here is anybody's", async () => {
  const stage = await withPolicy({ verification: "NeverVerify" }, async (on) => {
    await pulledByOwner(on);
    await on.apply("thief", specOf([], "Never"));
    await on.advance("2s");
  });
  expect(await stage.shown()).toContain("thief Running, ready: a running");
});

test("under AlwaysVerify even what somebody has put there needs a registry that lets the pod have it", async () => {
  const stage = await withPolicy({ verification: "AlwaysVerify" }, async (on) => {
    on.runtime.addImage(IMAGE);
    offerImage(on);
    await addPullSecret(on, "right", LOGIN);
    await on.apply("owner", specOf(["right"]));
    await on.apply("thief", specOf([]));
    await on.advance("2s");
  });
  expect(await stage.shown()).toEqual(["owner Running, ready: a running", "thief Pending: a waiting ErrImagePull"]);
});

test("what the node's own login has brought is for all of its pods", async () => {
  const stage = await createStage();
  offerImage(stage);
  const config = JSON.stringify({ auths: { "registry.example": { auth: btoa(LOGIN) } } });
  await stage.disk.at("/").write("root/config.json", config, 0o600);
  await stage.start();
  await stage.offer(makePod("one", { containers: [{ name: "a", image: IMAGE }] }));
  await stage.advance("2s");
  const never = { name: "a", image: IMAGE, imagePullPolicy: "Never" as const };
  await stage.offer(
    makePod("one", { containers: [{ name: "a", image: IMAGE }] }),
    makePod("two", { containers: [never] }),
  );
  await stage.advance("2s");
  expect(stage.pods().map(({ status }) => status.phase)).toEqual(["Running", "Running"]);
});

test("nothing of a login is in what is written down, nor in what is told", async () => {
  const stage = await play(pulledByOwner);
  const files = stage.disk.paths().filter((path) => path.includes("image_manager/") && path.includes("sha256-"));
  expect(files).toHaveLength(1);
  const texts = await Promise.all(files.map((path) => stage.disk.at("/").read(path, 1 << 20)));
  expect(texts.join("\n")).toContain('"name":"right"');
  const told = [...texts, ...stage.story, ...(await stage.events("owner"))].join("\n");
  expect(told).not.toMatch(new RegExp(`let me in|captain|${btoa(LOGIN).slice(0, 12)}`));
});
