// Secrets and ConfigMaps that pods are told of: what is there, what is missing, what comes later, and an API server that is away.
import { expect, test } from "bun:test";
import { configMaps, secrets } from "../../kube/resource.ts";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import { apiScenario, play } from "./api-scenario.ts";
import type { Stage } from "./harness.ts";

const SECRET_VALUE = "s3cr3t-of-the-test";

async function addSecret(stage: Stage, name: string, data: Readonly<Record<string, string>>): Promise<void> {
  const encoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
  await stage.kube.user.create(secrets("default"), {
    metadata: { name, namespace: "default" },
    data: Object.fromEntries(encoded),
  });
  await rest();
}

async function putConfigMap(stage: Stage, name: string, data: Readonly<Record<string, string>>): Promise<void> {
  const object = { metadata: { name, namespace: "default" }, data };
  const isThere = (await stage.kube.user.list(configMaps("default"), {})).items.length > 0;
  if (isThere) await stage.kube.user.replace(configMaps("default"), object);
  else await stage.kube.user.create(configMaps("default"), object);
  await rest();
}

const told = (container: Partial<Container>): Partial<PodSpec> => ({
  containers: [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent", ...container }],
});
const secretive = told({ env: [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "login", key: "token" } } }] });
const configured = told({ envFrom: [{ prefix: "SITE_", configMapRef: { name: "site" } }] });

/** What each container was told that the node itself does not tell, in the order of their making. */
function environments(stage: Stage): readonly string[] {
  return [...stage.runtime.containers.values()].map(({ config }) => {
    const words = config.envs.map(({ key, value }) => `${key}=${new TextDecoder().decode(value)}`);
    return `#${config.metadata?.attempt} ${words.join(" ")}`;
  });
}

const waitsFor = (stage: Stage) =>
  stage.pods().map(({ status }) => {
    const { reason, message } = status.containerStatuses?.[0]?.state?.waiting ?? {};
    return `${reason}: ${message}`;
  });

apiScenario(
  "a container waits for a Secret that is not there, and begins at once when somebody makes it",
  async (stage) => {
    await stage.apply("web", secretive);
    await stage.advance("20s");
    await addSecret(stage, "login", { token: SECRET_VALUE });
    await stage.advance("500ms");
  },
  async (end, stage) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(environments(stage)).toEqual([`#0 TOKEN=${SECRET_VALUE}`]);
    const events = await stage.events("web");
    expect(events.filter((event) => event.includes("Failed"))).toEqual([
      expect.stringMatching(/^\dx Warning Failed: Error: secret "login" not found$/),
    ]);
    expect(events.at(-1)).toBe("1x Normal Started: Container started");
    expect([...stage.story, ...events, JSON.stringify(stage.pods())].join("\n")).not.toContain(SECRET_VALUE);
  },
);

apiScenario(
  "a ConfigMap that becomes another one restarts nothing; the next instance is told of the new one",
  async (stage) => {
    await putConfigMap(stage, "site", { colour: "blue" });
    await stage.apply("web", configured);
    await stage.advance("5s");
    await putConfigMap(stage, "site", { colour: "red" });
    await stage.advance("30s");
    if (stage.runtime.containers.size === 1) await stage.exit("a", 1);
    await stage.advance("30s");
  },
  async (end, stage) => {
    expect(end.api).toEqual(["web Running, ready: a running (restarts: 1)"]);
    expect(environments(stage)).toEqual(["#0 SITE_colour=blue", "#1 SITE_colour=red"]);
  },
);

test("a key that is missing is said, and is there as soon as the object has it", async () => {
  const stage = await play(async (on) => {
    await putConfigMap(on, "site", {});
    const env = [{ name: "A", valueFrom: { configMapKeyRef: { name: "site", key: "colour" } } }];
    await on.apply("web", told({ env }));
    await on.advance("9s");
  });
  expect(waitsFor(stage)).toEqual(["CreateContainerConfigError: couldn't find key colour in ConfigMap default/site"]);
  await putConfigMap(stage, "site", { colour: "blue" });
  expect(environments(stage)).toEqual(["#0 A=blue"]);
});

test("while the API server is away what was read is used, and what was not is waited for in the kubelet's words", async () => {
  const stage = await play(async (on) => {
    await addSecret(on, "login", { token: "1" });
    await on.apply("web", secretive);
    await on.advance("5s");
    on.kube.goDown();
    await on.exit("a", 1);
    await on.advance("15s");
  });
  expect(environments(stage)).toEqual(["#0 TOKEN=1", "#1 TOKEN=1"]);
  await stage.stop();
  await stage.exit("a", 1);
  await stage.start();
  await stage.advance("60s");
  expect(waitsFor(stage)).toEqual([
    "CreateContainerConfigError: failed to sync secret cache: timed out waiting for the condition",
  ]);
  stage.kube.comeBack();
  await stage.advance("3s");
  expect(environments(stage).at(-1)).toBe("#2 TOKEN=1");
  // Nothing of it was ever on the disk.
  const files = await Promise.all(
    stage.disk
      .paths()
      .filter((path) => path.endsWith(".json"))
      .map((path) => stage.disk.at("/").read(path, 1 << 20)),
  );
  expect(files.join("\n")).not.toContain('"data"');
});

test("a pod that is gone leaves no watch, and one that has ended neither", async () => {
  const stage = await play(async (on) => {
    await addSecret(on, "login", { token: "1" });
    await on.advance("1s");
  });
  const before = stage.kube.watches;
  await stage.apply("web", secretive);
  await stage.apply("job", { ...secretive, restartPolicy: "Never" });
  await stage.advance("1s");
  expect(stage.kube.watches).toBe(before + 1);
  await stage.remove("web");
  await stage.advance("40s");
  expect(stage.kube.watches).toBe(before + 1);
  await stage.exit("a", 0);
  await stage.advance("5s");
  expect([await stage.shown(), stage.kube.watches]).toEqual([["job Succeeded: a terminated Completed 0"], before]);
});
