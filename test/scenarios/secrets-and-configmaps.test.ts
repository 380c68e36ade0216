// Environment variables from Secrets and ConfigMaps: missing, created later, changed, and during outages of the API
// server.
import { expect, test } from "bun:test";
import { configMaps, secrets } from "../../kube/resource.ts";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const SECRET_VALUE = "s3cr3t-of-the-test";

async function addSecret(harness: AgentHarness, name: string, data: Readonly<Record<string, string>>): Promise<void> {
  const encoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
  await harness.kube.user.create(secrets("default"), {
    metadata: { name, namespace: "default" },
    data: Object.fromEntries(encoded),
  });
  await settlePromises();
}

async function putConfigMap(
  harness: AgentHarness,
  name: string,
  data: Readonly<Record<string, string>>,
): Promise<void> {
  const object = { metadata: { name, namespace: "default" }, data };
  const isThere = (await harness.kube.user.list(configMaps("default"), {})).items.length > 0;
  if (isThere) await harness.kube.user.replace(configMaps("default"), object);
  else await harness.kube.user.create(configMaps("default"), object);
  await settlePromises();
}

const podWith = (container: Partial<Container>): Partial<PodSpec> => ({
  containers: [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent", ...container }],
});
const withSecret = podWith({ env: [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "login", key: "token" } } }] });
const withConfigMap = podWith({ envFrom: [{ prefix: "SITE_", configMapRef: { name: "site" } }] });

/** The environment of each container, in order of creation: `#0 A=b`. */
function environments(harness: AgentHarness): readonly string[] {
  return [...harness.runtime.containers.values()].map(({ config }) => {
    const variables = config.envs.map(({ key, value }) => `${key}=${new TextDecoder().decode(value)}`);
    return `#${config.metadata?.attempt} ${variables.join(" ")}`;
  });
}

const waitingReasons = (harness: AgentHarness) =>
  harness.podReports().map(({ status }) => {
    const { reason, message } = status.containerStatuses?.[0]?.state?.waiting ?? {};
    return `${reason}: ${message}`;
  });

apiScenario(
  "a container waits for a missing Secret and starts at once when it is created",
  async (harness) => {
    await harness.apply("web", withSecret);
    await harness.advance("20s");
    await addSecret(harness, "login", { token: SECRET_VALUE });
    await harness.advance("500ms");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(environments(harness)).toEqual([`#0 TOKEN=${SECRET_VALUE}`]);
    const events = await harness.events("web");
    expect(events.filter((event) => event.includes("Failed"))).toEqual([
      expect.stringMatching(/^\dx Warning Failed: Error: secret "login" not found$/),
    ]);
    expect(events.at(-1)).toBe("1x Normal Started: Container started");
    expect([...harness.log, ...events, JSON.stringify(harness.podReports())].join("\n")).not.toContain(SECRET_VALUE);
  },
);

apiScenario(
  "a change of a ConfigMap restarts nothing; the next instance gets the new values",
  async (harness) => {
    await putConfigMap(harness, "site", { colour: "blue" });
    await harness.apply("web", withConfigMap);
    await harness.advance("5s");
    await putConfigMap(harness, "site", { colour: "red" });
    await harness.advance("30s");
    if (harness.runtime.containers.size === 1) await harness.exit("a", 1);
    await harness.advance("30s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running (restarts: 1)"]);
    expect(environments(harness)).toEqual(["#0 SITE_colour=blue", "#1 SITE_colour=red"]);
  },
);

test("a missing key is reported, and the container starts as soon as the ConfigMap has it", async () => {
  const harness = await runInCluster(async (on) => {
    await putConfigMap(on, "site", {});
    const env = [{ name: "A", valueFrom: { configMapKeyRef: { name: "site", key: "colour" } } }];
    await on.apply("web", podWith({ env }));
    await on.advance("9s");
  });
  expect(waitingReasons(harness)).toEqual([
    "CreateContainerConfigError: couldn't find key colour in ConfigMap default/site",
  ]);
  await putConfigMap(harness, "site", { colour: "blue" });
  expect(environments(harness)).toEqual(["#0 A=blue"]);
});

test("while the API server is down known Secrets are used, and unknown ones fail with the kubelet's timeout error", async () => {
  const harness = await runInCluster(async (on) => {
    await addSecret(on, "login", { token: "1" });
    await on.apply("web", withSecret);
    await on.advance("5s");
    on.kube.goDown();
    await on.exit("a", 1);
    await on.advance("15s");
  });
  expect(environments(harness)).toEqual(["#0 TOKEN=1", "#1 TOKEN=1"]);
  await harness.stop();
  await harness.exit("a", 1);
  await harness.start();
  await harness.advance("60s");
  expect(waitingReasons(harness)).toEqual([
    "CreateContainerConfigError: failed to sync secret cache: timed out waiting for the condition",
  ]);
  harness.kube.comeBack();
  await harness.advance("3s");
  expect(environments(harness).at(-1)).toBe("#2 TOKEN=1");
  // The Secret was never written to the disk.
  const files = await Promise.all(
    harness.disk
      .paths()
      .filter((path) => path.endsWith(".json"))
      .map((path) => harness.disk.at("/").read(path, 1 << 20)),
  );
  expect(files.join("\n")).not.toContain('"data"');
});

test("the watch of a Secret ends when its pods are deleted or have ended", async () => {
  const harness = await runInCluster(async (on) => {
    await addSecret(on, "login", { token: "1" });
    await on.advance("1s");
  });
  const before = harness.kube.openWatches;
  await harness.apply("web", withSecret);
  await harness.apply("job", { ...withSecret, restartPolicy: "Never" });
  await harness.advance("1s");
  expect(harness.kube.openWatches).toBe(before + 1);
  await harness.deletePod("web");
  await harness.advance("40s");
  expect(harness.kube.openWatches).toBe(before + 1);
  await harness.exit("a", 0);
  await harness.advance("5s");
  expect([await harness.apiPods(), harness.kube.openWatches]).toEqual([
    ["job Succeeded: a terminated Completed 0"],
    before,
  ]);
});

test("a new agent reads the Secrets of the pods that run, and not those of pods that have ended", async () => {
  const harness = await runInCluster(async (on) => {
    for (const name of ["login", "key"]) await addSecret(on, name, { token: "1" });
    const withKey = podWith({ env: [{ name: "KEY", valueFrom: { secretKeyRef: { name: "key", key: "token" } } }] });
    await on.apply("job", { ...withSecret, restartPolicy: "Never" });
    await on.advance("2s");
    await on.exit("a", 0);
    await on.advance("5s");
    await on.apply("web", withKey);
    await on.advance("5s");
  });
  await harness.stop();
  harness.kube.calls.length = 0;
  await harness.start();
  await harness.advance("5s");
  expect(harness.kube.calls.filter((call) => call.includes("secrets"))).toEqual(["watch secrets/default"]);
});
