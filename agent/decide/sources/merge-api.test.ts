import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { ObjectMeta, Pod, PodSpec, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { type ApiMerge, type ApiNews, mergeApi } from "./merge-api.ts";

const taken = Date.parse("2026-01-01T10:00:00Z");
const now = taken + 60_000;
const deleted = (gracePeriodSeconds: number): Partial<ObjectMeta> => ({
  deletionTimestamp: "2026-01-01T10:01:30Z",
  deletionGracePeriodSeconds: gracePeriodSeconds,
});

interface Changes {
  readonly metadata?: Partial<ObjectMeta>;
  readonly spec?: Partial<PodSpec>;
  readonly status?: PodStatus;
}

const podOf = (uid: string, { metadata, spec, status }: Changes = {}): Pod => ({
  metadata: { uid, name: uid, namespace: "shop", resourceVersion: "1", ...metadata },
  spec: { containers: [{ name: "a", image: "busybox:1" }], terminationGracePeriodSeconds: 20, ...spec },
  ...(status === undefined ? {} : { status }),
});
const merge = (known: readonly DesiredPod[], news: ApiNews, at = now): ApiMerge =>
  mergeApi(
    (uid) => known.find((each) => each.uid === uid),
    () => known,
    news,
    at,
  );
const changed = (pod: Pod): ApiNews => ({ kind: "changed", pod });
const complete = (...pods: readonly Pod[]): ApiNews => ({ kind: "complete", pods });
const gone = (uid: string): ApiNews => ({ kind: "gone", uid: uid as PodUid });
/** The pod as this node knows it after it heard of it. */
const known = (pod: Pod, at = taken): DesiredPod => merge([], changed(pod), at).added[0]!;
const fromFile: DesiredPod = { ...known(podOf("static")), source: { kind: "file", path: "/m" } };

/** `+ new  ~ changed  - ending(grace)  = refreshed  ! looked at` */
function show({ added, changed: other, ended, refreshed, woken }: ApiMerge): string {
  const end = ({ uid, termination: t }: DesiredPod) =>
    `${uid}${t === undefined ? "" : ` (${t.gracePeriodSeconds}s from ${(t.requestedAt - taken) / 1000}s: ${t.why})`}`;
  return [
    ...added.map((pod) => `+${end(pod)}`),
    ...other.map(({ uid, revision }) => `~${uid} r${revision}`),
    ...ended.map((pod) => `-${end(pod)}`),
    ...refreshed.map(({ uid }) => `=${uid}`),
    ...woken.map((uid) => `!${uid}`),
  ].join(" ");
}

const web = podOf("web");
const ending = (grace: number) => known(podOf("web", { metadata: deleted(grace) }));
const gate = (status: "True" | "False") => ({
  spec: { readinessGates: [{ conditionType: "lb/ready" }] },
  status: { conditions: [{ type: "lb/ready", status }] },
});
const vanishes = "the API server does not have it any more";
const rows: readonly [name: string, known: readonly DesiredPod[], news: ApiNews, says: string][] = [
  ["a pod that is new is added", [], changed(web), "+web"],
  ["all that there are are added", [], complete(web, podOf("db")), "+web +db"],
  [
    "a pod that was deleted before this node heard of it ends",
    [],
    changed(podOf("web", { metadata: deleted(5) })),
    "+web (5s from 60s: it was deleted)",
  ],
  ["a pod of a manifest's uid is not the API server's to change", [fromFile], changed(podOf("static")), ""],
  ["pods of manifests are not missed in a complete word", [fromFile], complete(), ""],
  [
    "another image is a change of the same pod",
    [known(web)],
    changed(podOf("web", { spec: { containers: [{ name: "a", image: "busybox:2" }] } })),
    "~web r0",
  ],
  ["so is a label", [known(web)], changed(podOf("web", { metadata: { labels: { a: "b" } } })), "~web r0"],
  ["so is an annotation", [known(web)], changed(podOf("web", { metadata: { annotations: { a: "b" } } })), "~web r0"],
  [
    "an annotation of the kubelet's is no change",
    [known(web)],
    changed(podOf("web", { metadata: { annotations: { "kubernetes.io/config.seen": "long ago" } } })),
    "=web",
  ],
  [
    "the status that we told it is no news",
    [known(web)],
    changed(podOf("web", { metadata: { resourceVersion: "2" }, status: { phase: "Running" } })),
    "=web",
  ],
  [
    "a pod that somebody else has ended is looked at",
    [known(web)],
    changed(podOf("web", { status: { phase: "Failed" } })),
    "=web !web",
  ],
  [
    "so is one whose readiness gate has moved",
    [known(podOf("web", gate("False")))],
    changed(podOf("web", gate("True"))),
    "=web !web",
  ],
  [
    "the same word of a gate is no news",
    [known(podOf("web", gate("True")))],
    changed(podOf("web", gate("True"))),
    "=web",
  ],
  [
    "a deletion ends it within the grace that was granted",
    [known(web)],
    changed(podOf("web", { metadata: deleted(7) })),
    "-web (7s from 60s: it was deleted)",
  ],
  [
    "a grace of nothing is one second",
    [known(web)],
    changed(podOf("web", { metadata: deleted(0) })),
    "-web (1s from 60s: it was deleted)",
  ],
  ["the same deletion again is no news", [ending(30)], changed(podOf("web", { metadata: deleted(30) })), "=web"],
  [
    "a second deletion with less grace ends it sooner",
    [{ ...ending(300) }],
    changed(podOf("web", { metadata: deleted(5) })),
    "-web (5s from 60s: it was deleted)",
  ],
  [
    "one that would give it longer changes nothing of its end",
    [ending(30)],
    changed(podOf("web", { metadata: deleted(600) })),
    "~web r0",
  ],
  ["a pod that vanished ends with its own grace", [known(web)], gone("web"), `-web (20s from 60s: ${vanishes})`],
  [
    "one that is not in the complete word has vanished too",
    [known(web)],
    complete(),
    `-web (20s from 60s: ${vanishes})`,
  ],
  ["a pod that ends and has vanished is looked at, and keeps its grace", [ending(30)], gone("web"), "!web"],
  ["the end of a pod that nobody knows is nothing", [], gone("web"), ""],
];
for (const [name, before, news, says] of rows)
  test(name, () => {
    expect(show(merge(before, news))).toBe(says);
  });

test("a pod carries where it came from and when it was taken, and keeps that through changes", () => {
  const first = known(web);
  expect(first.pod.metadata.annotations).toEqual({
    "kubernetes.io/config.source": "api",
    "kubernetes.io/config.seen": "2026-01-01T10:00:00Z",
  });
  const [after] = merge([first], changed(podOf("web", { metadata: { labels: { a: "b" } } }))).changed;
  expect(after?.pod.metadata.annotations).toEqual(first.pod.metadata.annotations!);
  expect(after?.acceptedAt).toBe(taken);
});

test("the start that was told of a pod stays its start; what is no time is none", () => {
  const told = (startTime: string) => known(podOf("web", { status: { startTime } })).acceptedAt;
  expect(told("2026-01-01T09:00:00Z")).toBe(taken - 3_600_000);
  expect(told("yesterday")).toBe(taken);
});
