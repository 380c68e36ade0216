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
import { createStage, type Stage, type StageOptions } from "../scenarios/harness.ts";

/** What a pod `web` is, and how the programs of its containers behave, by container. */
export interface Scene {
  readonly spec?: Partial<PodSpec>;
  readonly programs?: Readonly<Record<string, Program>>;
  readonly options?: StageOptions;
  /** What is so before the pod is there. */
  readonly before?: (stage: Stage) => Promise<void> | void;
}

/** What a test of a page looks at. */
export interface Page {
  readonly stage: Stage;
  /** Every status of the pod that the API server has had, each as it was when it was told. */
  readonly told: readonly PodStatus[];
}

/** A node of a cluster to which the pod `web` was just bound: all that can happen at once has happened. */
export async function runPod({ spec = {}, programs = {}, options = {}, before }: Scene = {}): Promise<Page> {
  const stage = await createStage({ isInCluster: true, ...options });
  const told: PodStatus[] = [];
  stage.kube.after.patch = async (about) => {
    const status = about.endsWith("/web/status") ? (await shownPod(stage))?.status : undefined;
    if (status !== undefined) told.push(status);
  };
  for (const [name, program] of Object.entries(programs)) stage.runtime.programs.set(name, program);
  await stage.start();
  await before?.(stage);
  await stage.apply("web", spec);
  return { stage, told };
}

export function container(name: string, more: Partial<Container> = {}): Container {
  return { name, image: "busybox:1", imagePullPolicy: "IfNotPresent", ...more };
}

export function sidecar(name: string, more: Partial<Container> = {}): Container {
  return container(name, { restartPolicy: "Always", ...more });
}

/** The pod as the API server has it; undefined when it is gone. */
export async function shownPod(stage: Stage, name = "web"): Promise<Pod | undefined> {
  const { items } = await stage.kube.user.list(pods("default"), {});
  return items.find(({ metadata }) => metadata.name === name);
}

/** Its status; of a pod that is gone there is none, which is a mistake of the test. */
export async function statusOf(stage: Stage, name = "web"): Promise<PodStatus> {
  const pod = await shownPod(stage, name);
  if (pod?.status === undefined) throw new Error(`the API server has no status of a pod ${name}`);
  return pod.status;
}

export async function containerOf(stage: Stage, name: string): Promise<ContainerStatus> {
  const found = allContainerStatuses(await statusOf(stage)).find((status) => status.name === name);
  if (found === undefined) throw new Error(`the API server has no status of a container ${name}`);
  return found;
}

export async function conditionOf(stage: Stage, type: string): Promise<PodCondition | undefined> {
  return (await statusOf(stage)).conditions?.find((condition) => condition.type === type);
}

/** Somebody else says something of the pod, in its status. */
export async function setCondition(stage: Stage, type: string, status: "True" | "False"): Promise<void> {
  const condition = { type, status, lastTransitionTime: "2026-01-01T00:00:00Z" };
  const body = { status: { conditions: [condition] } };
  await stage.kube.user.patch(pods("default"), "web", { type: "strategic", subresource: "status", body });
  await stage.advance("1ms");
}

/** What happened to sandboxes and containers so far, in order: `0s sandbox started`, `0s a started`, `31s a stopped`. */
export function happenings(stage: Stage, pattern = /started|stopped/): readonly string[] {
  const [{ at: start } = { at: 0 }] = stage.runtime.timeline;
  return stage.runtime.timeline
    .map(({ at, what, change, role }) => {
      const name = what === "sandbox" ? "sandbox" : role.slice(role.indexOf("/") + 1);
      return `${(at - start) / 1000}s ${name} ${change}`;
    })
    .filter((line) => pattern.test(line));
}
