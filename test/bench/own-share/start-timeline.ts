import {
  ContainerStatusRequest,
  CreateContainerRequest,
  CreateContainerResponse,
  PodSandboxStatusRequest,
  PullImageRequest,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
  StartContainerRequest,
} from "../../../proto/cri/gen/api.ts";
import { isTraced, ownSegments, SHOWN } from "./own-segments.ts";
import type { PassedCall } from "./runtime-proxy.ts";
import type { StartTimeline, Step } from "./step.ts";

/** The ids of a pod, which its calls have in their messages. */
interface Ids {
  readonly name: string;
  readonly sandboxes: Set<string>;
  readonly containers: Set<string>;
}

/** Whether a call is for this pod; it learns the ids of sandboxes and containers from the responses. */
const belongsTo: Readonly<Record<string, (call: PassedCall, ids: Ids) => boolean>> = {
  RunPodSandbox({ request, response }, { name, sandboxes }) {
    const isOwn = RunPodSandboxRequest.decode(request).config?.metadata?.name === name;
    if (isOwn) sandboxes.add(RunPodSandboxResponse.decode(response).podSandboxId);
    return isOwn;
  },
  CreateContainer({ request, response }, { sandboxes, containers }) {
    const isOwn = sandboxes.has(CreateContainerRequest.decode(request).podSandboxId);
    if (isOwn) containers.add(CreateContainerResponse.decode(response).containerId);
    return isOwn;
  },
  StartContainer: ({ request }, { containers }) => containers.has(StartContainerRequest.decode(request).containerId),
  ContainerStatus: ({ request }, { containers }) => containers.has(ContainerStatusRequest.decode(request).containerId),
  PodSandboxStatus: ({ request }, { sandboxes }) => sandboxes.has(PodSandboxStatusRequest.decode(request).podSandboxId),
  PullImage: ({ request }, { name }) => PullImageRequest.decode(request).sandboxConfig?.metadata?.name === name,
  // Names no pod. Only one pod starts at a time.
  ImageStatus: () => true,
};

/** The CRI calls for the pod `name` between its create request and its Ready condition; lists of all pods are none. */
export function runtimeSteps(
  calls: readonly PassedCall[],
  name: string,
  { createdAt, readyAt }: { readonly createdAt: number; readonly readyAt: number },
): readonly Step[] {
  const ids: Ids = { name, sandboxes: new Set(), containers: new Set() };
  return calls
    .filter(({ from, until }) => from < readyAt && until > createdAt)
    .filter((call) => belongsTo[call.method]?.(call, ids) === true)
    .map(({ method, from, until }) => ({
      ...{ of: "runtime" as const, what: method },
      ...{ from: from - createdAt, until: Math.min(until, readyAt) - createdAt },
    }));
}

/** The time from the create request to Ready in which no CRI call for the pod was under way. */
export const ownShareMs = ({ readyMs, steps }: StartTimeline): number =>
  readyMs - unionMs(steps.filter(({ of }) => of === "runtime"));

/** The time in which at least one of the steps was under way. */
function unionMs(steps: readonly Step[]): number {
  let [sum, end] = [0, Number.NEGATIVE_INFINITY];
  for (const { from, until } of inOrder(steps)) {
    sum += Math.max(0, until - Math.max(from, end));
    end = Math.max(end, until);
  }
  return sum;
}

const inOrder = <T extends Pick<Step, "from">>(steps: readonly T[]) => steps.toSorted((a, b) => a.from - b.from);

/** Draws a start line by line: what was awaited when and for how long, and the agent's work in between. */
export function drawTimeline(agent: string, timeline: StartTimeline): string {
  const { shownMs, readyMs, steps } = timeline;
  const lines = [
    { what: STORED, from: 0, until: shownMs },
    ...steps.filter(({ of }) => of !== "step").map((step) => ({ ...step, what: nameOf(agent, step) })),
    ...ownSegments(timeline)
      .filter(({ from, until, isRequest }) => !isRequest && until - from >= SHORTEST_MS)
      .filter(({ what }) => !steps.some((step) => step.of === "agent" && step.what === what))
      .map(({ what, ...times }) => ({ ...times, what: what === SHOWN ? what : nameOf(agent, { of: "agent", what }) })),
  ];
  const own = ownShareMs(timeline);
  const named = isTraced(steps) ? `, ${Math.round((100 * (own - unnamedMs(timeline))) / own)} % of it with a name` : "";
  const title = `${agent}: created → Ready ${show(readyMs)} ms, of them ${show(own)} ms without a CRI call for the pod${named}`;
  return [title, ...inOrder(lines).map(drawLine)].join("\n");
}

function nameOf(agent: string, { of, what = "" }: Pick<Step, "of"> & { readonly what: string | undefined }): string {
  return of === "agent" ? `(${agent}) ${what}`.trimEnd() : what;
}

const STORED = "the API server stores the pod and sends it to watches";

const drawLine = ({ what, from, until }: Pick<Step, "what" | "from" | "until">) =>
  `${show(from).padStart(7)} → ${show(until).padStart(6)}  ${show(until - from).padStart(6)} ms  ${what}`;

/** Shorter parts between two steps are not drawn. */
const SHORTEST_MS = 0.1;

/** The agent's own time that no step names. */
export const unnamedMs = (timeline: StartTimeline): number =>
  sumOf(ownSegments(timeline).filter(({ what }) => what === undefined));

const sumOf = (parts: readonly { readonly from: number; readonly until: number }[]) =>
  parts.reduce((sum, { from, until }) => sum + until - from, 0);

/** Draws where the time without a CRI call goes, in the mean of the starts: the longest parts first, with the agent's own marked as in a time line. */
export function drawOwnSteps(agent: string, starts: readonly StartTimeline[]): string {
  const parts = starts.flatMap((start) => [
    { what: STORED, from: 0, until: start.shownMs },
    ...ownSegments(start).map(({ what, isRequest, ...times }) => ({
      ...{ what: isRequest || what === SHOWN ? (what ?? "") : nameOf(agent, { of: "agent", what }) },
      ...times,
    })),
  ]);
  const means = [...Map.groupBy(parts, ({ what }) => what)]
    .map(([what, all]) => ({ what, ms: sumOf(all) / starts.length }))
    .toSorted((a, b) => b.ms - a.ms);
  const isLong = ({ ms }: (typeof means)[number]) => ms >= SHORTEST_MS;
  const shorter = means.filter((mean) => !isLong(mean)).reduce((sum, { ms }) => sum + ms, 0);
  const rows = [
    ...means.filter(isLong),
    { what: "shorter parts", ms: shorter },
    { what: "together", ms: sumOf(parts) / starts.length },
  ];
  const lines = rows.filter(isLong).map(({ what, ms }) => `${show(ms).padStart(7)} ms  ${what}`);
  return [`${agent}: the time without a CRI call for the pod, the mean of ${starts.length} starts`, ...lines].join(
    "\n",
  );
}

const show = (ms: number) => ms.toFixed(1);

/** The start whose own share is the middle one. */
export function middleStart(starts: readonly StartTimeline[]): StartTimeline | undefined {
  const sorted = starts.toSorted((a, b) => ownShareMs(a) - ownShareMs(b));
  return sorted[Math.ceil(sorted.length / 2) - 1];
}
