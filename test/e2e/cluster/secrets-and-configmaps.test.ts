import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { execa } from "execa";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { until } from "../../bed/poll-until.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { script } from "../manifest.ts";
import { linesWith } from "../node.ts";
import { barePod } from "./api-objects.ts";
import { type ClusterNode, describedEvents, isUp, startClusterNode } from "./node.ts";

setDefaultTimeout(90_000);

const skip = skipWithoutPrograms("Secrets and ConfigMaps that pods of a cluster are told of");
/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;
/** Every Secret has this in it. */
const planted = "hunter2-";

const hashOf = (text: string) => createHash("md5").update(text).digest("hex");
/** Says what a variable is without showing it. */
const tellHash = (variable: string) => script(`printf %s "$${variable}" | md5sum > /dev/termination-log; exit 0`);
const lastWords = ({ status }: Pod) => {
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
  }, BUILD_MS);
  afterAll(() => cluster?.end());

  const see = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.see(what, name, (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };

  test("waits for a Secret that is not there, says so, and begins at once when it is made", async () => {
    await cluster.apply([barePod("early", { env: token, command: tellHash("TOKEN") }, { restartPolicy: "Never" })]);
    const waiting = await see("early", "it waits", ({ status }) => {
      const { reason, message } = status?.containerStatuses?.[0]?.state?.waiting ?? {};
      return reason === "CreateContainerConfigError" && message === 'secret "login" not found';
    });
    expect(waiting.status?.phase).toBe("Pending");
    await until("the event", 10_000, async () => {
      const events = describedEvents(await cluster.kubectl("describe", "pod", "early"));
      return events.some(
        ({ reason, message }) => reason === "Failed" && message.startsWith('Error: secret "login" not found'),
      );
    });
    await cluster.kubectl("create", "secret", "generic", "login", `--from-literal=token=${planted}one`);
    const pod = await see("early", "it has ended", hasEnded);
    expect(lastWords(pod)).toBe(hashOf(`${planted}one`));
  });

  test("is told of all keys of both kinds, under their prefix, and of what is optional only where it is there", async () => {
    await cluster.kubectl("create", "configmap", "site", "--from-literal=colour=blue", "--from-literal=a.b=dotted");
    const text =
      'printf "%s" "$SITE_colour $TOKEN $NONE.unset $(tr "\\\\0" "\\\\n" < /proc/1/environ | grep -c ^SITE_a.b=dotted)" | md5sum > /dev/termination-log';
    const container: Partial<Container> = {
      command: script(text),
      env: [{ name: "NONE", valueFrom: { configMapKeyRef: { name: "none", key: "k", optional: true } } }, ...token],
      envFrom: [{ prefix: "SITE_", configMapRef: { name: "site" } }, { secretRef: { name: "none", optional: true } }],
    };
    await cluster.apply([barePod("whole", container, { restartPolicy: "Never" })]);
    const pod = await see("whole", "it has ended", hasEnded);
    expect(lastWords(pod)).toBe(hashOf(`blue ${planted}one .unset 1`));
  });

  test("is not restarted by a change of what it was told; its next instance is told of the new", async () => {
    const text =
      'printf "%s" "$TOKEN" | md5sum > /dev/termination-log; while [ ! -e /tmp/go ]; do sleep 0.1; done; exit 1';
    await cluster.apply([barePod("steady", { env: token, command: script(text) })]);
    const before = await see("steady", "it is up", isUp);
    const changed = JSON.stringify({ stringData: { token: `${planted}two` } });
    await cluster.kubectl("patch", "secret", "login", "--patch", changed);
    // Another pod that refers to it shows that the agent has heard of the change.
    await until("a pod with the new value", 30_000, async () => {
      await cluster.apply([barePod("probe", { env: token, command: tellHash("TOKEN") }, { restartPolicy: "Never" })]);
      const probe = await see("probe", "it has ended", hasEnded);
      await cluster.kubectl("delete", "pod", "probe", "--timeout=20s");
      return lastWords(probe) === hashOf(`${planted}two`);
    });
    const now = await cluster.pod("steady");
    const idOf = ({ status }: Pod) => status?.containerStatuses?.[0]?.containerID;
    expect([now.status?.containerStatuses?.[0]?.restartCount, idOf(now)]).toEqual([0, idOf(before)]);
    await cluster.kubectl("delete", "pod", "steady", "early", "whole", "--timeout=30s");
    await cluster.empty();
  });

  test("leaves no value of a Secret in the log at -v 10, in what berth shows, in events or on the disk", async () => {
    await cluster.apply([barePod("keeper", { env: token })]);
    await see("keeper", "it is up", isUp);
    const log = await cluster.node.log();
    expect(linesWith(log, "debug").length).toBeGreaterThan(20);
    expect(linesWith(log, planted)).toEqual([]);
    expect(linesWith(log, Buffer.from(planted).toString("base64").slice(0, 8))).toEqual([]);
    const [program = "", ...args] = cluster.node.agent.podsArgv;
    for (const format of ["table", "json"])
      expect((await execa(program, [...args, "-o", format])).stdout).not.toContain(planted);
    expect(await cluster.kubectl("get", "events", "--output=json")).not.toContain(planted);
    const { stdout } = await execa("grep", ["-rl", planted, cluster.node.paths.agentRoot], { reject: false });
    expect(stdout).toBe("");
    await cluster.kubectl("delete", "pod", "keeper", "--timeout=20s");
    await cluster.empty();
  });
});
