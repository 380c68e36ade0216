import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { parseTime } from "../../../proto/kubernetes/time.ts";
import { type DesiredPod, dueOf, gracePeriodOf, type Termination } from "../pod/desired.ts";
import { isTerminal } from "./api-pod.ts";
import { isEqual, type Merge, seenAt } from "./merge-static.ts";

/** What the API server says of the pods that are bound to this node. Mirror pods are not among them: they are answers of ours. */
export type ApiNews =
  /** `unreadable`: what the API server has besides, and nobody here can make out. They stay as they were. */
  | { readonly kind: "complete"; readonly pods: readonly Pod[]; readonly unreadable?: readonly PodUid[] }
  | { readonly kind: "changed"; readonly pod: Pod }
  | { readonly kind: "gone"; readonly uid: PodUid };

/** What a word of the API server changes. */
export interface ApiMerge extends Merge {
  /** Only what the API server has noted of them has changed, such as the status that we told it: nothing to be recorded. */
  readonly refreshed: readonly DesiredPod[];
  /** Pods that are to be looked at, beside those above. */
  readonly woken: readonly PodUid[];
}

/**
 * Compares what the API server says with what is wanted from it so far.
 *
 * A pod of the API never becomes another one under its uid: of its spec little may change, and what may (an image, a deadline, a
 * toleration) changes a pod that runs, so its revision stays. It ends with the grace that the API server grants, which only ever
 * gets shorter; one that has vanished (a forced deletion) ends with the grace it last had.
 */
export function mergeApi(
  find: (uid: PodUid) => DesiredPod | undefined,
  all: () => Iterable<DesiredPod>,
  news: ApiNews,
  now: number,
): ApiMerge {
  const told = news.kind === "complete" ? news.pods : news.kind === "changed" ? [news.pod] : [];
  const changes = told.map((pod) => changeOf(find(pod.metadata.uid as PodUid), pod, now));
  const lost = lostBy(news, find, all).filter(({ source }) => source.kind === "api");
  const of = (kind: "added" | "changed" | "ended") =>
    changes.flatMap((change) => (change.kind === kind ? [change.desired] : []));
  const refreshed = changes.filter((change) => change.kind === "refreshed");
  return {
    added: of("added"),
    changed: of("changed"),
    ended: [
      ...of("ended"),
      ...lost.filter((each) => each.termination === undefined).map((each) => vanished(each, now)),
    ],
    refreshed: refreshed.map(({ desired }) => desired),
    woken: [
      ...refreshed.filter(({ isNews }) => isNews).map(({ desired }) => desired.uid),
      ...lost.filter(({ termination }) => termination !== undefined).map(({ uid }) => uid),
    ],
  };
}

type Change =
  | { readonly kind: "added" | "changed" | "ended"; readonly desired: DesiredPod }
  | { readonly kind: "refreshed"; readonly desired: DesiredPod; readonly isNews: boolean }
  /** A uid that a manifest has taken. */
  | { readonly kind: "foreign" };

function changeOf(known: DesiredPod | undefined, told: Pod, now: number): Change {
  if (known !== undefined && known.source.kind !== "api") return { kind: "foreign" };
  const acceptedAt = known?.acceptedAt ?? startTimeOf(told) ?? now;
  const pod = seenAt(told, acceptedAt, "api");
  const termination = terminationOf(pod, known, now);
  const ending = termination === undefined ? {} : { termination };
  if (known === undefined) {
    const uid = told.metadata.uid as PodUid;
    return { kind: "added", desired: { uid, pod, source: { kind: "api" }, acceptedAt, revision: 0, ...ending } };
  }
  const desired: DesiredPod = { ...known, pod, ...ending };
  if (termination !== known.termination) return { kind: "ended", desired };
  if (!isSameWish(pod, known.pod)) return { kind: "changed", desired };
  return { kind: "refreshed", desired, isNews: isNewsOfStatus(known.pod, pod) };
}

/** Those that the API server does not have any more. */
function lostBy(
  news: ApiNews,
  find: (uid: PodUid) => DesiredPod | undefined,
  all: () => Iterable<DesiredPod>,
): readonly DesiredPod[] {
  switch (news.kind) {
    case "complete": {
      const told = new Set<string | undefined>(news.pods.map(({ metadata }) => metadata.uid));
      for (const uid of news.unreadable ?? []) told.add(uid);
      return [...all()].filter(({ uid }) => !told.has(uid));
    }
    case "changed":
      return [];
    case "gone": {
      const known = find(news.uid);
      return known === undefined ? [] : [known];
    }
  }
}

/** The time that another agent, or this one before it lost its records, has told as the pod's start: it never changes. */
function startTimeOf({ status }: Pod): number | undefined {
  if (status?.startTime === undefined) return undefined;
  try {
    return parseTime(status.startTime);
  } catch {
    // Not a time: as good as none, and ours takes its place.
    return undefined;
  }
}

/** The end that the API server asks for, or that was asked for before, if that comes earlier. */
function terminationOf(pod: Pod, known: DesiredPod | undefined, now: number): Termination | undefined {
  const { deletionTimestamp, deletionGracePeriodSeconds = gracePeriodOf(pod) } = pod.metadata;
  const before = known?.termination;
  if (deletionTimestamp === undefined) return before;
  // Counted from when this node hears of it, not from when it was said: the clocks of two machines are two.
  const asked: Termination = {
    requestedAt: now,
    gracePeriodSeconds: Math.max(1, deletionGracePeriodSeconds),
    why: "it was deleted",
  };
  if (before === undefined) return asked;
  const { deletionTimestamp: saidBefore, deletionGracePeriodSeconds: graceBefore } = known?.pod.metadata ?? {};
  const isNews = saidBefore === undefined || graceBefore !== pod.metadata.deletionGracePeriodSeconds;
  return isNews && dueOf(asked) < dueOf(before) ? asked : before;
}

function vanished(known: DesiredPod, now: number): DesiredPod {
  const { deletionGracePeriodSeconds = gracePeriodOf(known.pod) } = known.pod.metadata;
  const why = "the API server does not have it any more";
  return {
    ...known,
    termination: { requestedAt: now, gracePeriodSeconds: Math.max(1, deletionGracePeriodSeconds), why },
  };
}

/** What a node goes by; the rest (owners, finalizers, who manages which field, the status) is between others. */
function isSameWish(a: Pod, b: Pod): boolean {
  return (
    isEqual(a.spec, b.spec) &&
    isEqual(a.metadata.labels, b.metadata.labels) &&
    isEqual(a.metadata.annotations, b.metadata.annotations) &&
    a.metadata.generation === b.metadata.generation &&
    a.metadata.deletionTimestamp === b.metadata.deletionTimestamp &&
    a.metadata.deletionGracePeriodSeconds === b.metadata.deletionGracePeriodSeconds
  );
}

/** Somebody else has ended the pod, or has set a condition that its readiness waits for. */
function isNewsOfStatus(before: Pod, after: Pod): boolean {
  return isTerminal(after.status) !== isTerminal(before.status) || !isEqual(gatesOf(before), gatesOf(after));
}

function gatesOf({ spec, status }: Pod): readonly unknown[] {
  const conditions = status?.conditions ?? [];
  return (spec.readinessGates ?? []).map(
    ({ conditionType }) => conditions.find(({ type }) => type === conditionType)?.status,
  );
}
