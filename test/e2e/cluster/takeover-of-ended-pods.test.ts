import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pods } from "../../../kube/resource.ts";
import { ContainerState } from "../../../proto/cri/gen/api.ts";
import type { Container, ContainerStatus, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { podNameLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { podOf } from "../manifest.ts";
import { barePod } from "./api-objects.ts";
import { type AgentName, startTakeoverNode, type TakeoverNode } from "./takeover-fixture.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("ended pods over a change from the kubelet to Berth and back");
const shell = (text: string) => ["sh", "-c", text];

/** A container that notes each of its runs in the file of this name. */
const prepare = (name: string): Container => ({
  name: "prepare",
  image: busyboxImage,
  command: shell(`echo ran >> /notes/${name}`),
  volumeMounts: [{ name: "notes", mountPath: "/notes" }],
});
const mounted = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const ended = (name: string, command: string, spec: Partial<PodSpec> = {}) =>
  barePod(name, { ...mounted, command: shell(command) }, { restartPolicy: "Never", ...spec });

/** Pods that end in each way, with the phase of each. `spec` has the volume of the notes. */
const endedPods = (spec: Partial<PodSpec>): readonly (readonly [Pod, string])[] => [
  [ended("succeeded", "true", { ...spec, initContainers: [prepare("succeeded")] }), "Succeeded"],
  [ended("failed", "exit 3", spec), "Failed"],
  [ended("late", "sleep 1000", { ...spec, activeDeadlineSeconds: 1, terminationGracePeriodSeconds: 1 }), "Failed"],
  [
    ended("retried", "test -e /notes/retried || { touch /notes/retried; exit 1; }", {
      ...spec,
      restartPolicy: "OnFailure",
    }),
    "Succeeded",
  ],
];
const staticPod = podOf("static", { command: ["true"] }, { restartPolicy: "Never" });
const staticName = "static-node-a";
const endedNames = [...endedPods({}).map(([{ metadata }]) => metadata.name ?? ""), staticName];

/** The finalizer keeps a pod in the API, so that its last status can be read. */
const finalized = (pod: Pod) => ({ ...pod, metadata: { ...pod.metadata, finalizers: ["berth.test/last-status"] } });
/** A container that prints that it has received SIGTERM, and runs on while `condition` fails. */
const afterSigterm = (condition: string) =>
  shell(`trap "isLeaving=1; echo leaving" TERM; echo up; until test "$isLeaving" && ${condition}; do sleep 0.2; done`);
const STUBBORN_GRACE_SECONDS = 20;
/** Longer than everything that the test waits for. */
const DRAIN_GRACE_SECONDS = 600;
const leavingPods = (to: AgentName, spec: Partial<PodSpec>): readonly Pod[] => [
  barePod(
    `stubborn-${to}`,
    { command: afterSigterm("false") },
    { ...spec, terminationGracePeriodSeconds: STUBBORN_GRACE_SECONDS },
  ),
  barePod(
    `draining-${to}`,
    { ...mounted, command: afterSigterm(`test -e /notes/draining-${to}`) },
    { ...spec, terminationGracePeriodSeconds: DRAIN_GRACE_SECONDS },
  ),
];

/** The delay after so many restarts: the first one is immediate, and the second one after ten seconds. */
const backOffMs = (restarts: number) => 10_000 * 2 ** (restarts - 1);
const NEW_MS = 3_000;

const RUNNING = ContainerState.CONTAINER_RUNNING;
const mainOf = ({ status }: Pod): ContainerStatus => {
  const main = status?.containerStatuses?.[0];
  if (main === undefined) throw new Error(`no status of a container in ${JSON.stringify(status)}`);
  return main;
};
/** The end of a container's last run. */
const endOf = ({ state, lastState }: ContainerStatus) => state?.terminated ?? lastState?.terminated;
/** When a container's last run began. */
const startOf = (main: ContainerStatus) => epochMs((main.state?.running ?? endOf(main))?.startedAt);
const epochMs = (time = "") => Date.parse(time);

describe.skipIf(skip !== undefined)("a change of agents beside pods that have ended", () => {
  let takeover: TakeoverNode;
  let notes = "";
  let spec: Partial<PodSpec> = {};
  beforeAll(async () => {
    takeover = await startTakeoverNode();
    notes = join(takeover.node.folder, "notes");
    await mkdir(notes);
    spec = { volumes: [{ name: "notes", hostPath: { path: notes } }] };
    const crashing = barePod(
      "crashing",
      { command: shell("exit 7") },
      { ...spec, initContainers: [prepare("crashing")] },
    );
    await takeover.switchTo("kubelet");
    await takeover.node.putManifest(staticPod);
    await takeover.apply([...endedPods(spec).map(([pod]) => pod), crashing]);
    const expected = Object.fromEntries(endedPods(spec).map(([{ metadata }, phase]) => [metadata.name, phase]));
    for (const name of endedNames)
      await waitForPod(name, "it ends", ({ status }) => status?.phase === (expected[name] ?? "Succeeded"));
  }, BUILD_TIMEOUT_MS);
  afterAll(() => takeover?.tearDown());

  const getPod = (name: string) => takeover.kube.get(pods("default"), name);
  async function waitForPod(name: string, what: string, condition: (pod: Pod) => boolean): Promise<Pod> {
    let last: Pod | undefined;
    return await pollUntil(`the pod ${name}: ${what}`, 90_000, async () => {
      // The pod may not exist yet; the timeout reports a failure that lasts.
      last = await getPod(name).catch(() => undefined);
      return last !== undefined && condition(last) && last;
    }).catch((cause: unknown) => {
      throw new Error(`the pod ${name} does not meet: ${what}; last seen: ${JSON.stringify(last?.status)}`, { cause });
    });
  }
  const containersOf = async (names: readonly string[]) =>
    (await takeover.node.containers()).filter(({ labels }) => names.includes(labels[podNameLabel] ?? ""));

  /**
   * The status of a pod that has ended. A kubelet that starts drops the addresses of such pods, its own too, and may give a
   * static pod new times. Berth keeps the whole status.
   */
  async function endedStatus(name: string, to: AgentName) {
    const { podIP, podIPs, startTime, conditions, ...status } = (await getPod(name)).status ?? {};
    if (to === "berth") return { name, status, startTime, conditions, podIP, podIPs };
    return name === staticName ? { name, status } : { name, status, startTime, conditions };
  }
  /** Everything of the pods that have ended that a user sees, and their containers. */
  const presentEnded = async (to: AgentName) => ({
    statuses: await Promise.all(endedNames.map((name) => endedStatus(name, to))),
    containers: (await containersOf(endedNames))
      .map(({ id, state, labels }) => `${labels[podNameLabel]} ${id} ${state}`)
      .toSorted(),
  });
  const isInBackOff = (pod: Pod) => mainOf(pod).state?.waiting?.reason === "CrashLoopBackOff";
  /**
   * Whether the pod has just crashed and waits for at least 20 seconds: an agent that takes over meanwhile might restart it early.
   * The kubelet shows the back-off only some seconds later.
   */
  const beginsLongBackOff = (pod: Pod) =>
    mainOf(pod).restartCount >= 2 && Date.now() - epochMs(endOf(mainOf(pod))?.finishedAt) < NEW_MS;

  /** Starts pods that do not end at once. Returns their names once they handle SIGTERM. */
  async function startLeaving(to: AgentName): Promise<readonly string[]> {
    const leaving = leavingPods(to, spec).map(finalized);
    const names = leaving.map(({ metadata }) => metadata.name ?? "");
    await takeover.apply(leaving);
    for (const name of names) await waitForOutput(name, "up");
    return names;
  }
  /** Deletes pods. Returns them once their containers have received SIGTERM. */
  async function deletePods(names: readonly string[]): Promise<readonly Pod[]> {
    await takeover.plane.kubectl(["delete", "pod", "--wait=false", ...names]);
    for (const name of names) await waitForOutput(name, "leaving");
    return await Promise.all(names.map(getPod));
  }
  const waitForOutput = (name: string, words: string) =>
    pollUntil(`${name} to print ${words}`, 60_000, async () =>
      // The container may not exist yet; the timeout reports a failure that lasts.
      (await readLog(name).catch(() => "")).split("\n").some((line) => line.endsWith(` ${words}`)),
    );
  async function readLog(name: string): Promise<string> {
    const { uid } = (await getPod(name)).metadata;
    return await readFile(join(takeover.node.paths.podLogs, `default_${name}_${uid}`, "main", "0.log"), "utf8");
  }

  /** Expects that the pods end in the same containers, none before its time, and that they go once they may. */
  async function expectProperEnd(to: AgentName, [stubborn, draining]: readonly Pod[]): Promise<void> {
    await writeFile(join(notes, `draining-${to}`), "");
    for (const [before, phase, exitCode] of [
      [draining, "Succeeded", 0],
      [stubborn, "Failed", 137],
    ] as const) {
      const name = before?.metadata.name ?? "";
      const after = await waitForPod(name, "it ends", ({ status }) => status?.phase === phase);
      const { state, restartCount, containerID } = mainOf(after);
      expect({ restartCount, containerID }).toEqual({ restartCount: 0, containerID: mainOf(before!).containerID });
      expect(state?.terminated?.exitCode).toBe(exitCode);
      // Its time is that of the deletion and the grace period.
      const graceEnd = epochMs(before?.metadata.deletionTimestamp);
      if (before === stubborn) expect(epochMs(state?.terminated?.finishedAt)).toBeGreaterThanOrEqual(graceEnd);
      else expect(epochMs(state?.terminated?.finishedAt)).toBeLessThan(graceEnd);
      const patch = JSON.stringify({ metadata: { finalizers: null } });
      await takeover.plane.kubectl(["patch", "pod", name, "--type=merge", `--patch=${patch}`]);
      await takeover.plane.kubectl(["wait", "--for=delete", `pod/${name}`, "--timeout=60s"]);
      await pollUntil(`no container of ${name}`, 60_000, async () => (await containersOf([name])).length === 0);
    }
  }

  /**
   * Changes the agent once `crashing` meets `waits`, while other pods are being deleted. Returns the status of `crashing` before
   * and after its next restart.
   */
  async function handOver(to: AgentName, waits: (pod: Pod) => boolean) {
    const ended = await presentEnded(to);
    const names = await startLeaving(to);
    const before = await waitForPod("crashing", "it waits for its restart", waits);
    const leaving = await deletePods(names);
    await takeover.stopAgent();
    expect((await containersOf(names)).map(({ state }) => state)).toEqual(names.map(() => RUNNING));
    await takeover.switchTo(to);
    const { restartCount } = mainOf(before);
    const counts: number[] = [];
    const after = await waitForPod("crashing", "it has restarted", (pod) => {
      counts.push(mainOf(pod).restartCount);
      // A container that is created only has its number already.
      return mainOf(pod).restartCount > restartCount && startOf(mainOf(pod)) > startOf(mainOf(before));
    });
    expect(counts.filter((count) => count < restartCount)).toEqual([]);
    await takeover.apply([barePod(`new-of-${to}`)]);
    await takeover.waitForAgent(to, [`new-of-${to}`]);
    await expectProperEnd(to, leaving);
    expect(await presentEnded(to)).toEqual(ended);
    expect(after.status?.initContainerStatuses).toEqual(before.status?.initContainerStatuses);
    for (const name of ["crashing", "succeeded"]) expect(await readFile(join(notes, name), "utf8")).toBe("ran\n");
    return { before: mainOf(before), after: mainOf(after) };
  }

  test("from the kubelet to Berth runs none of them again, and keeps restart counts, back-off and grace periods", async () => {
    const { before, after } = await handOver("berth", beginsLongBackOff);
    expect(after.restartCount).toBe(before.restartCount + 1);
    const waitedMs = startOf(after) - epochMs(endOf(before)?.finishedAt);
    expect(waitedMs).toBeGreaterThanOrEqual(backOffMs(before.restartCount));
  });

  test("from Berth to the kubelet runs none of them again, and keeps restart counts and grace periods", async () => {
    // The kubelet has the back-off in its memory alone: when it starts, it restarts the container at once.
    await handOver("kubelet", isInBackOff);
  });
});
