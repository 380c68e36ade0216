import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { execa } from "execa";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { script } from "../manifest.ts";
import { linesContaining } from "../node.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("environment variables from Secrets and ConfigMaps");
/** The prefix of every Secret's value. */
const secretPrefix = "hunter2-";

const hashOf = (text: string) => createHash("md5").update(text).digest("hex");
/** A command that reports the hash of a variable, so that its value does not appear in the status. */
const reportHash = (variable: string) => script(`printf %s "$${variable}" | md5sum > /dev/termination-log; exit 0`);
const terminationMessage = ({ status }: Pod) => {
  const { state, lastState } = status?.containerStatuses?.[0] ?? {};
  return (state?.terminated ?? lastState?.terminated)?.message?.slice(0, 32);
};
const hasEnded = ({ status }: Pod) => status?.phase === "Succeeded";
const token: Container["env"] = [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "login", key: "token" } } }];

describe.skipIf(skip !== undefined)("a container of a cluster", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
    await cluster.node.agent.stop();
    await cluster.node.startAgent({ logging: { verbosity: 10 } });
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  const waitForPod = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.waitForPods(what, name, (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };

  test("waits for a missing Secret, reports it, and starts at once when the Secret is created", async () => {
    await cluster.apply([barePod("early", { env: token, command: reportHash("TOKEN") }, { restartPolicy: "Never" })]);
    const waiting = await waitForPod("early", "it waits", ({ status }) => {
      const { reason, message } = status?.containerStatuses?.[0]?.state?.waiting ?? {};
      return reason === "CreateContainerConfigError" && message === 'secret "login" not found';
    });
    expect(waiting.status?.phase).toBe("Pending");
    await pollUntil("the event", 10_000, async () => {
      const events = parseDescribedEvents(await cluster.kubectl("describe", "pod", "early"));
      return events.some(
        ({ reason, message }) => reason === "Failed" && message.startsWith('Error: secret "login" not found'),
      );
    });
    await cluster.kubectl("create", "secret", "generic", "login", `--from-literal=token=${secretPrefix}one`);
    const pod = await waitForPod("early", "it has ended", hasEnded);
    expect(terminationMessage(pod)).toBe(hashOf(`${secretPrefix}one`));
  });

  test("gets all keys of Secrets and ConfigMaps with their prefix, and skips missing optional ones", async () => {
    await cluster.kubectl("create", "configmap", "site", "--from-literal=colour=blue", "--from-literal=a.b=dotted");
    const text =
      'printf "%s" "$SITE_colour $TOKEN $NONE.unset $(tr "\\\\0" "\\\\n" < /proc/1/environ | grep -c ^SITE_a.b=dotted)" | md5sum > /dev/termination-log';
    const container: Partial<Container> = {
      command: script(text),
      env: [{ name: "NONE", valueFrom: { configMapKeyRef: { name: "none", key: "k", optional: true } } }, ...token],
      envFrom: [{ prefix: "SITE_", configMapRef: { name: "site" } }, { secretRef: { name: "none", optional: true } }],
    };
    await cluster.apply([barePod("whole", container, { restartPolicy: "Never" })]);
    const pod = await waitForPod("whole", "it has ended", hasEnded);
    expect(terminationMessage(pod)).toBe(hashOf(`blue ${secretPrefix}one .unset 1`));
  });

  test("is not restarted when its Secret changes, and a new container gets the new value", async () => {
    const text =
      'printf "%s" "$TOKEN" | md5sum > /dev/termination-log; while [ ! -e /tmp/go ]; do sleep 0.1; done; exit 1';
    await cluster.apply([barePod("steady", { env: token, command: script(text) })]);
    const before = await waitForPod("steady", "it is up", areContainersReady);
    const changed = JSON.stringify({ stringData: { token: `${secretPrefix}two` } });
    await cluster.kubectl("patch", "secret", "login", "--patch", changed);
    // Another pod with the same Secret shows that the agent has received the change.
    await pollUntil("a pod with the new value", 30_000, async () => {
      await cluster.apply([barePod("probe", { env: token, command: reportHash("TOKEN") }, { restartPolicy: "Never" })]);
      const probe = await waitForPod("probe", "it has ended", hasEnded);
      await cluster.kubectl("delete", "pod", "probe", "--timeout=180s");
      return terminationMessage(probe) === hashOf(`${secretPrefix}two`);
    });
    const now = await cluster.pod("steady");
    const idOf = ({ status }: Pod) => status?.containerStatuses?.[0]?.containerID;
    expect([now.status?.containerStatuses?.[0]?.restartCount, idOf(now)]).toEqual([0, idOf(before)]);
    await cluster.kubectl("delete", "pod", "steady", "early", "whole", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("leaves no value of a Secret in the log at -v 10, in berth pods, in events or on the disk", async () => {
    await cluster.apply([barePod("keeper", { env: token })]);
    await waitForPod("keeper", "it is up", areContainersReady);
    const log = await cluster.node.log();
    expect(linesContaining(log, "debug").length).toBeGreaterThan(20);
    expect(linesContaining(log, secretPrefix)).toEqual([]);
    expect(linesContaining(log, Buffer.from(secretPrefix).toString("base64").slice(0, 8))).toEqual([]);
    const [program = "", ...args] = cluster.node.agent.podsArgv;
    for (const format of ["table", "json"])
      expect((await execa(program, [...args, "-o", format])).stdout).not.toContain(secretPrefix);
    expect(await cluster.kubectl("get", "events", "--output=json")).not.toContain(secretPrefix);
    const { stdout } = await execa("grep", ["-rl", secretPrefix, cluster.node.paths.agentRoot], { reject: false });
    expect(stdout).toBe("");
    await cluster.kubectl("delete", "pod", "keeper", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });
});
