import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type Registry, startRegistry } from "../../bed/containerd/registry.ts";
import { buildTestImages, busyboxImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { linesContaining } from "../node.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("pulls of private images");
const login = { username: "captain", password: "hunter2-let-me-in" };

describe.skipIf(skip !== undefined)("a private image", () => {
  let cluster: ClusterNode;
  let registry: Registry;
  beforeAll(async () => {
    cluster = await startClusterNode();
    await cluster.node.agent.stop();
    await cluster.node.startAgent({ logging: { verbosity: 10 } });
    registry = await startRegistry(cluster.node.containerd, login);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await registry?.stop();
    await cluster?.tearDown();
  });

  const push = async (name: string) => {
    const built = (await buildTestImages()).find((one) => one.name === busyboxImage)!;
    return await registry.push({ ...built, name: `berth.test/${name}:1` });
  };
  const addSecret = async (name: string, password: string) => {
    const dockerFlags = [`--docker-server=${registry.host}`, `--docker-username=${login.username}`];
    await cluster.kubectl("create", "secret", "docker-registry", name, ...dockerFlags, `--docker-password=${password}`);
  };
  const apply = async (name: string, image: string, ...pullSecrets: readonly string[]) => {
    const imagePullSecrets = pullSecrets.map((each) => ({ name: each }));
    await cluster.apply([barePod(name, { image }, { imagePullSecrets })]);
  };
  const waitForPod = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.waitForPods(what, name, (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };
  const cannotPull = ({ status }: Pod) =>
    /^(ErrImagePull|ImagePullBackOff)$/.test(status?.containerStatuses?.[0]?.state?.waiting?.reason ?? "");
  const waitForEvent = async (name: string, reason: string) =>
    await pollUntil(`the event ${reason}`, 15_000, async () => {
      const events = parseDescribedEvents(await cluster.kubectl("describe", "pod", name));
      return events.find((event) => event.reason === reason);
    });

  test("is pulled with the pod's pull Secret, or with the next one if the first is wrong", async () => {
    await addSecret("right", login.password);
    await addSecret("wrong", "hunter2-guess");
    await apply("one", await push("one"), "right");
    await apply("second", await push("second"), "wrong", "right");
    for (const name of ["one", "second"]) await waitForPod(name, "it is up", areContainersReady);
  });

  test("is not pulled without credentials or with wrong ones, and the pod's status has the error", async () => {
    await apply("nobody", await push("nobody"));
    await apply("guesser", await push("guesser"), "wrong");
    for (const name of ["nobody", "guesser"]) {
      const pod = await waitForPod(name, "it cannot be pulled", cannotPull);
      expect(pod.status?.containerStatuses?.[0]?.state?.waiting?.message).toMatch(/authorization|401/i);
    }
  });

  test("is pulled as soon as the missing pull Secret is created, and an event names the missing Secret", async () => {
    await apply("early", await push("early"), "later");
    await waitForPod("early", "it cannot be pulled", cannotPull);
    const { message } = await waitForEvent("early", "FailedToRetrieveImagePullSecret");
    expect(message).toBe(
      "Unable to retrieve some image pull secrets (later); attempting to pull the image may not succeed.",
    );
    await addSecret("later", login.password);
    await waitForPod("early", "it is up", areContainersReady);
  });

  test("is pulled with the node's own config.json", async () => {
    const file = join(cluster.node.paths.agentRoot, "config.json");
    const auth = Buffer.from(`${login.username}:${login.password}`).toString("base64");
    await writeFile(file, JSON.stringify({ auths: { [registry.host]: { auth } } }), { mode: 0o600 });
    try {
      await apply("of-node", await push("of-node"));
      await waitForPod("of-node", "it is up", areContainersReady);
    } finally {
      await rm(file);
    }
  });

  test("leaves no credentials in the log at -v 10, in events or in pods", async () => {
    const log = await cluster.node.log();
    expect(linesContaining(log, "PullImage").length).toBeGreaterThan(0);
    const output = [log, await cluster.kubectl("get", "events,pods", "--output=json")].join("\n");
    const encoded = Buffer.from(`${login.username}:${login.password}`).toString("base64");
    expect([...linesContaining(output, "hunter2-"), ...linesContaining(output, encoded.slice(0, 20))]).toEqual([]);
    await cluster.kubectl("delete", "pods", "--all", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });
});
