import type { DoctorReport } from "../../../cli/doctor/report.ts";
import { events, nodes, pods } from "../../../kube/resource.ts";
import type { NodeCondition } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { CgroupTree } from "../../differential/cgroups/cgroup-tree.ts";
import { berthFolder } from "../guest-paths.ts";
import { assert, deletePods } from "./await-cgroups.ts";
import { besteffortPod } from "./check-pods.ts";
import { isReady, type NodeBed, namespace, nodeName } from "./node-bed.ts";
import { type CgroupDriver, rootCgroups } from "./system-files.ts";

const STEP_TIMEOUT_MS = 10 * 60_000;
const POLL_MS = 1000;
const MISMATCH = "CgroupDriverMismatch";
const podName = "with-the-other-driver";

/**
 * Runs the agent with the driver that runc does not use, and then with the same one, with a containerd that does not say
 * which it uses. With a runc that uses systemd no sandbox starts, and the pod's event has the cure; with one that uses
 * cgroupfs pods start. Node condition, event and `berth doctor` name both drivers.
 */
export async function reportMismatch(bed: NodeBed, withoutPods: CgroupTree, driver: CgroupDriver): Promise<string> {
  await deletePods(bed, withoutPods);
  await bed.stopAgent("berth");
  const other = driver === "systemd" ? "cgroupfs" : "systemd";
  await bed.launchAgent("berth", { cgroupDriver: other });
  const { message = "" } = await awaitCondition(bed, MISMATCH, "True");
  assert(
    message.startsWith(`the container runtime uses the cgroup driver ${driver} and this agent ${other}, so `),
    `the condition's message is ${message}`,
  );
  await awaitCondition(bed, "Ready", driver === "systemd" ? "False" : "True");
  await awaitEvent(bed, nodeName, MISMATCH, (text) => text === message);
  const pod = besteffortPod(podName);
  if (driver === "cgroupfs") await bed.createPods([pod], isReady);
  else {
    await bed.kube.create(pods(namespace), { ...pod, spec: { ...pod.spec, nodeName } });
    const hasCure = (text: string) =>
      text.includes(" the container runtime and this agent use different cgroup drivers: set cgroupDriver to ");
    await awaitEvent(bed, podName, "FailedCreatePodSandBox", hasCure);
  }
  const finding = await readDoctor(bed);
  const both = `containerd uses ${driver}, and cgroupDriver of the configuration is ${other}`;
  assert(finding.startsWith(both), `berth doctor says: ${finding}`);
  await bed.stopAgent("berth");
  await bed.startAgent("berth");
  const runs = async () => [...(await bed.listPods()).values()].some(isReady);
  await pollUntil("the pod to run with the right driver", STEP_TIMEOUT_MS, runs, POLL_MS);
  await awaitCondition(bed, MISMATCH, "False");
  await awaitCondition(bed, "Ready", "True");
  await removeRootCgroup(bed, other);
  return `${message}; berth doctor: ${finding}`;
}

async function awaitCondition({ kube, agentLog }: NodeBed, type: string, status: string): Promise<NodeCondition> {
  return await pollUntil(
    `${type} to be ${status}`,
    STEP_TIMEOUT_MS,
    async () => {
      const node = await kube.get(nodes, nodeName);
      return node.status?.conditions?.find((each) => each.type === type && each.status === status);
    },
    POLL_MS,
  ).catch(async (cause: Error) => {
    throw new Error(`${cause.message}; the end of its log:\n${await agentLog("berth")}`, { cause });
  });
}

/** Events of nodes are in the namespace `default`, as the pods of the tests are. */
async function awaitEvent({ kube }: NodeBed, object: string, reason: string, has: (message: string) => boolean) {
  let seen: readonly string[] = [];
  await pollUntil(
    `the event ${reason} of ${object}`,
    STEP_TIMEOUT_MS,
    async () => {
      const { items } = await kube.list(events(namespace), {});
      const found = items.filter((event) => event.involvedObject.name === object && event.reason === reason);
      seen = found.map(({ message = "" }) => message);
      return seen.some(has);
    },
    POLL_MS,
  ).catch((cause: Error) => {
    throw new Error(`${cause.message}; their messages are: ${seen.join("\n")}`, { cause });
  });
}

/** What `berth doctor` says of the driver that the running agent is configured with. */
async function readDoctor({ guest }: NodeBed): Promise<string> {
  // Its exit code is 1 if it finds a problem.
  const text = await guest.run(`${berthFolder}/agents/berth doctor -o json || true`);
  const { findings } = JSON.parse(text) as Pick<DoctorReport, "findings">;
  return findings.find(({ check }) => check === "cgroup-driver")?.what ?? "nothing of the driver";
}

/** Removes the cgroups that the agent made with the other driver. */
async function removeRootCgroup({ guest }: NodeBed, driver: CgroupDriver): Promise<void> {
  const root = rootCgroups[driver];
  if (driver === "systemd") await guest.run(`systemctl stop ${root}`);
  await guest.run(
    `test ! -d /sys/fs/cgroup/${root} || busybox find /sys/fs/cgroup/${root} -depth -type d -exec rmdir '{}' ';'`,
  );
}
