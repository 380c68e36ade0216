import { describe, expect } from "bun:test";
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
import type { Program } from "../fakes/runtime-objects.ts";
import { seededRandom } from "../random.ts";
import { seed } from "../scenarios/harness/exit-lags.ts";
import type { ExpectedRegression } from "../scenarios/harness/expected-regressions.ts";
import type { HarnessOptions } from "../scenarios/harness/harness-options.ts";
import { seenAfterMs } from "../scenarios/harness/unseen-exits.ts";
import { type AgentHarness, createHarness } from "../scenarios/harness.ts";

/** For a test whose subject is an exact time or count, such as a restart delay: the status lags by the harness' two milliseconds. */
export const shortExitLag = { hasShortLag: true } as const satisfies HarnessOptions;

/** Registers the tests of a section of the documentation. Their titles name the seed, so that a failure can be repeated. */
export function describeSection(title: string, register: () => void): void {
  describe(`${title} (BERTH_SEED=${seed})`, register);
}

/** The pod `web` of a case: its spec, and the programs of its containers by name. */
export interface DocsPod {
  readonly spec?: Partial<PodSpec>;
  /** Its labels and annotations. */
  readonly metadata?: Pick<Pod["metadata"], "annotations" | "labels">;
  readonly programs?: Readonly<Record<string, Program>>;
  readonly options?: HarnessOptions;
  /** What the runtime reports that it supports; default: that of a current one. */
  readonly features?: AgentHarness["runtime"]["features"];
  /** Prepares the node before the pod is created. */
  readonly before?: (harness: AgentHarness) => Promise<void> | void;
}

/** A running case. */
export interface PodRun {
  readonly harness: AgentHarness;
  /** Every status of the pod that the API server has received, in order. */
  readonly statuses: readonly PodStatus[];
}

/** A case whose changes are compared with the times at which they are due. */
export interface TimedPodRun extends PodRun {
  readonly expectTimeline: (pattern: RegExp, expected: readonly string[], range?: TimelineRange) => Promise<void>;
}

/** The longest lag of an exit where times are compared. A change may be late by the lags of the exits before it. */
const MAX_TIMED_LAG_MS = 100;

/** As `runPod`, with lags so short that no change may be late by seconds. */
export async function runTimedPod({ options, ...pod }: DocsPod = {}): Promise<TimedPodRun> {
  const random = seededRandom(seed);
  const lags = options?.hasShortLag !== true && { exitLagMs: () => Math.ceil(random() * MAX_TIMED_LAG_MS) };
  const run = await runPod({ ...pod, options: { ...lags, ...options } });
  return {
    ...run,
    expectTimeline: (pattern, expected, range) => expectTimeline(run.harness, pattern, expected, range),
  };
}

/**
 * Starts a node in a cluster and binds the pod `web` to it. Returns when everything that needs no time has happened.
 */
export async function runPod({
  spec = {},
  metadata,
  programs = {},
  options = {},
  features,
  before,
}: DocsPod = {}): Promise<PodRun> {
  const harness = await createHarness({ isInCluster: true, waitsForExits: true, ...options });
  const statuses: PodStatus[] = [];
  harness.kube.after.patch = async (about) => {
    const status = about.endsWith("/web/status") ? (await readPod(harness, "web"))?.status : undefined;
    if (status !== undefined) statuses.push(status);
  };
  for (const [name, program] of Object.entries(programs)) harness.runtime.programs.set(name, program);
  if (features !== undefined) harness.runtime.features = features;
  await harness.start();
  await before?.(harness);
  await harness.apply("web", spec, metadata);
  return { harness, statuses };
}

const regression = (rule: string, why: string, label?: string): ExpectedRegression => ({
  pod: "web",
  rule,
  why,
  ...(label !== undefined && { label }),
});
/** Regressions that a sentence of the documentation is about. */
export const unreadyByProbe = [regression("readiness", "The probe fails.", "a")];
export const unreadyAtDeadline = [
  regression("being ready", "A pod past its deadline is PodFailed while its containers still stop."),
];
export const podIPOfNextSandbox = [regression("address", "The pod has a new sandbox.")];
export const pendingInNextSandbox = [regression("phase", "The init containers run again in the next sandbox.")];
export const allRestarted = (...containers: readonly string[]): readonly ExpectedRegression[] => [
  regression("phase", "All containers of the pod start again."),
  ...containers.map((label) =>
    regression(
      "end before the last start",
      "RestartAllContainers removes the container and reports an end of its own.",
      label,
    ),
  ),
];

export function container(name: string, more: Partial<Container> = {}): Container {
  return { name, image: "busybox:1", imagePullPolicy: "IfNotPresent", ...more };
}

export function sidecar(name: string, more: Partial<Container> = {}): Container {
  return container(name, { restartPolicy: "Always", ...more });
}

async function readPod(harness: AgentHarness, name: string): Promise<Pod | undefined> {
  const { items } = await harness.kube.user.list(pods("default"), {});
  return items.find(({ metadata }) => metadata.name === name);
}

/** The pod in the API once the runtime shows every exit; undefined if it does not exist. */
export async function apiPod(harness: AgentHarness, name = "web"): Promise<Pod | undefined> {
  await harness.showExits();
  return await readPod(harness, name);
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

/** A line of the timeline, `20s a started`, and how much later than without any lag it may be. */
interface TimelineEntry {
  readonly line: string;
  readonly tenths: number;
  readonly latenessMs: number;
}

function timelineOf(harness: AgentHarness, pattern: RegExp): readonly TimelineEntry[] {
  const [{ at: start } = { at: 0 }] = harness.runtime.timeline;
  let latenessMs = 0;
  const entries = harness.runtime.timeline.map(({ at, kind, change, role, lagMs = 0 }) => {
    const name = kind === "sandbox" ? "sandbox" : role.slice(role.indexOf("/") + 1);
    const tenths = Math.round((at - start) / 100);
    const entry = { line: `${tenths / 10}s ${name} ${change}`, tenths, latenessMs };
    latenessMs += seenAfterMs(lagMs);
    return entry;
  });
  return entries.filter(({ line }) => pattern.test(line));
}

/**
 * The changes of sandboxes and containers so far, in order: `0s sandbox started`, `0s a started`, `31s a stopped`. The
 * times are rounded to tenths of a second.
 */
export function formatTimeline(harness: AgentHarness, pattern = /started|stopped/): readonly string[] {
  return timelineOf(harness, pattern).map(({ line }) => line);
}

/** Selects changes of a timeline, as in `slice`. */
interface TimelineRange {
  readonly from?: number;
  readonly to?: number;
}

/**
 * Expects these changes, as `formatTimeline` prints them, once the runtime shows every exit. A change may be later by as
 * much as the agent saw the exits before it late.
 */
async function expectTimeline(
  harness: AgentHarness,
  pattern: RegExp,
  expected: readonly string[],
  { from, to }: TimelineRange = {},
): Promise<void> {
  await harness.showExits();
  const shown = timelineOf(harness, pattern)
    .slice(from, to)
    .map(({ line, tenths, latenessMs }, index) => {
      const [time = ""] = expected[index]?.split(" ") ?? [];
      const lateTenths = tenths - Number.parseFloat(time) * 10;
      const isInTime = lateTenths >= 0 && lateTenths <= latenessMs / 100 + 1;
      return isInTime ? line.replace(/^\S+/, time) : line;
    });
  expect(shown).toEqual([...expected]);
}
