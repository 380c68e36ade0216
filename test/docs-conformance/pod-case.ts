import { pods } from "../../kube/resource.ts";
import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type {
  Container,
  ContainerStatus,
  Pod,
  PodCondition,
  PodSpec,
  PodStatus,
} from "../../proto/kubernetes/gen/types.ts";
import type { Program } from "../fakes/runtime.ts";
import { type AgentHarness, createHarness, type HarnessOptions } from "../scenarios/harness.ts";

/** The pod `web` of a case: its spec, and the programs of its containers by name. */
export interface DocsPod {
  readonly spec?: Partial<PodSpec>;
  readonly programs?: Readonly<Record<string, Program>>;
  readonly options?: HarnessOptions;
  /** Prepares the node before the pod is created. */
  readonly before?: (harness: AgentHarness) => Promise<void> | void;
}

/** A running case. */
export interface PodRun {
  readonly harness: AgentHarness;
  /** Every status of the pod that the API server has received, in order. */
  readonly statuses: readonly PodStatus[];
}

/**
 * Starts a node in a cluster and binds the pod `web` to it. Returns when everything that needs no time has happened.
 */
export async function runPod({ spec = {}, programs = {}, options = {}, before }: DocsPod = {}): Promise<PodRun> {
  const harness = await createHarness({ isInCluster: true, ...options });
  const statuses: PodStatus[] = [];
  harness.kube.after.patch = async (about) => {
    const status = about.endsWith("/web/status") ? (await apiPod(harness))?.status : undefined;
    if (status !== undefined) statuses.push(status);
  };
  for (const [name, program] of Object.entries(programs)) harness.runtime.programs.set(name, program);
  await harness.start();
  await before?.(harness);
  await harness.apply("web", spec);
  return { harness, statuses };
}

export function container(name: string, more: Partial<Container> = {}): Container {
  return { name, image: "busybox:1", imagePullPolicy: "IfNotPresent", ...more };
}

export function sidecar(name: string, more: Partial<Container> = {}): Container {
  return container(name, { restartPolicy: "Always", ...more });
}

/** The pod in the API; undefined if it does not exist. */
export async function apiPod(harness: AgentHarness, name = "web"): Promise<Pod | undefined> {
  const { items } = await harness.kube.user.list(pods("default"), {});
  return items.find(({ metadata }) => metadata.name === name);
}

/** The status of a pod in the API. Throws if the pod or its status does not exist. */
export async function statusOf(harness: AgentHarness, name = "web"): Promise<PodStatus> {
  const pod = await apiPod(harness, name);
  if (pod?.status === undefined) throw new Error(`the API server has no status of a pod ${name}`);
  return pod.status;
}

export async function containerOf(harness: AgentHarness, name: string): Promise<ContainerStatus> {
  const found = allContainerStatuses(await statusOf(harness)).find((status) => status.name === name);
  if (found === undefined) throw new Error(`the API server has no status of a container ${name}`);
  return found;
}

export async function conditionOf(harness: AgentHarness, type: string): Promise<PodCondition | undefined> {
  return (await statusOf(harness)).conditions?.find((condition) => condition.type === type);
}

/** Sets a condition in the pod's status as another client. */
export async function setCondition(harness: AgentHarness, type: string, status: "True" | "False"): Promise<void> {
  const condition = { type, status, lastTransitionTime: "2026-01-01T00:00:00Z" };
  const body = { status: { conditions: [condition] } };
  await harness.kube.user.patch(pods("default"), "web", { type: "strategic", subresource: "status", body });
  await harness.advance("1ms");
}

/**
 * The changes of sandboxes and containers so far, in order: `0s sandbox started`, `0s a started`, `31s a stopped`. The
 * times are rounded to tenths of a second, since the runtime shows each exit some milliseconds late.
 */
export function formatTimeline(harness: AgentHarness, pattern = /started|stopped/): readonly string[] {
  const [{ at: start } = { at: 0 }] = harness.runtime.timeline;
  return harness.runtime.timeline
    .map(({ at, kind, change, role }) => {
      const name = kind === "sandbox" ? "sandbox" : role.slice(role.indexOf("/") + 1);
      return `${Math.round((at - start) / 100) / 10}s ${name} ${change}`;
    })
    .filter((line) => pattern.test(line));
}
