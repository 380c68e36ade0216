import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import { ContainerState, PodSandboxState } from "../../proto/cri/gen/api.ts";
import type { ContainerStatus, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { powerOff } from "../bed/cleanup/clean-up.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { linesContaining, startNode, type TestNode } from "./node.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

let node: TestNode;
afterEach(() => node.tearDown());

/** Adds a line to a file that outlives the containers: one line for each time that a container ran. */
const note = (name: string) => `echo ran >>/notes/${name}`;
const withNotes: Partial<PodSpec> = { volumes: [{ name: "notes", emptyDir: {} }] };
const notes = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
async function runs({ uid }: PodSummary, name: string): Promise<number> {
  const file = Bun.file(join(node.paths.agentRoot, "pods", uid, "volumes/kubernetes.io~empty-dir/notes", name));
  // A container notes its run some milliseconds after it has started.
  return (await file.exists()) ? (await file.text()).split("\n").length - 1 : 0;
}

/** The statuses of all containers of a pod, init containers first. */
const containersOf = ({ status }: PodSummary): readonly ContainerStatus[] => [
  ...(status.initContainerStatuses ?? []),
  ...(status.containerStatuses ?? []),
];
const statusOf = (pod: PodSummary, container: string) => containersOf(pod).find(({ name }) => name === container)!;
/** What the kubelet, too, shows of a container that ran when the machine lost its power. */
const lost = (before: PodSummary, container: string) => {
  const { containerID = "", state } = statusOf(before, container);
  const startedAt = state?.running?.startedAt ?? "";
  return { exitCode: 255, reason: "Unknown", startedAt, finishedAt: expect.any(String), containerID };
};

// The machine keeps its boot id here, and there is no cluster. `cluster/agent-restart.test.ts` has the node of a cluster whose
// boot id is another one afterwards, and its event `Rebooted`.
test.each(
  versionsUnderTest.flatMap((version) => [[version, "the runtime's"] as const, [version, "the built-in"] as const]),
)(
  "after a reboot with containerd %s and %s network each pod starts again once, and what has ended stays ended",
  async (version, network) => {
    node = await startNode({ version, network: network === "the built-in" ? "builtin" : undefined });
    const init = { name: "init", image: busyboxImage, command: script(note("init")), ...notes };
    const proxy = { name: "proxy", image: busyboxImage, command: untilStopped, restartPolicy: "Always" as const };
    const main = { command: script(`${note("main")}; exec sleep 1000000`), ...notes };
    await node.putManifest(podOf("web", main, { ...withNotes, initContainers: [init, proxy] }));
    await node.putManifest(podOf("never", {}, { restartPolicy: "Never" }));
    await node.putManifest(podOf("done", { command: ["true"] }, { restartPolicy: "OnFailure" }));
    await node.putManifest(podOf("removed"));
    const [web, never] = await node.waitUntilRunning("web", "never", "removed");
    const done = await node.waitForPod("done", "it has ended", ({ phase }) => phase === "Succeeded");
    await pollUntil("main to have noted its run", 10_000, async () => (await runs(web!, "main")) === 1);

    await node.agent.kill9();
    await node.containerd.kill9();
    await powerOff(node.containerd.record);
    await node.removeFile("removed.yaml");
    // As at a boot, the agent may start before the runtime.
    await node.launchAgent();
    await node.containerd.restart();

    const isUp = ({ ready, uid, restarts }: PodSummary) => uid === web?.uid && ready === "2/2" && restarts > 0;
    const webAgain = await node.waitForPod("web", "it runs again", isUp);
    expect(webAgain.ip).not.toBe("");
    expect(containersOf(webAgain).map(({ name, restartCount, lastState }) => [name, restartCount, lastState])).toEqual([
      ["init", 1, statusOf(web!, "init").state],
      ["proxy", 1, { terminated: lost(web!, "proxy") }],
      ["main", 1, { terminated: lost(web!, "main") }],
    ]);
    await pollUntil("both to have run twice", 10_000, async () => (await runs(web!, "main")) === 2);
    expect(await runs(web!, "init")).toBe(2);
    const neverAgain = await node.waitForPod("never", "it has failed", ({ phase }) => phase === "Failed");
    expect([neverAgain.uid, neverAgain.restarts]).toEqual([never!.uid, 0]);
    expect(neverAgain.status.containerStatuses?.[0]?.state?.terminated).toEqual(lost(never!, "main"));
    const doneAgain = await node.waitForPod("done", "it has ended", ({ phase }) => phase === "Succeeded");
    expect(doneAgain.status.containerStatuses).toEqual(done.status.containerStatuses!);

    const names = ["done-berth", "never-berth", "web-berth"];
    await pollUntil("the removed pod to be gone", 20_000, async () => (await node.pods()).length === names.length);
    const sandboxes = (await node.sandboxes()).filter(({ state }) => state === PodSandboxState.SANDBOX_READY);
    expect(sandboxes.map(({ metadata }) => metadata?.name)).toEqual(["web-berth"]);
    const running = (await node.containers()).filter(({ state }) => state === ContainerState.CONTAINER_RUNNING);
    expect(running.map(({ metadata }) => metadata?.name).toSorted()).toEqual(["main", "proxy"]);
    const checkpoints = await readdir(join(node.paths.agentRoot, "berth/pods"));
    expect(checkpoints.toSorted()).toEqual([web, never, done].map((pod) => `${pod!.uid}.json`).toSorted());
    const logs = join(node.paths.podLogs, `default_web-berth_${web!.uid}`, "main");
    expect((await readdir(logs)).toSorted()).toEqual(["0.log", "1.log"]);
    expect(linesContaining(await node.log(), " error ")).toEqual([]);
  },
);
