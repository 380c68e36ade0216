import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { ObjectMeta, Pod, PodSpec, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { type ApiMergeResult, type ApiPodUpdate, mergeApi } from "./merge-api.ts";

const acceptedAt = Date.parse("2026-01-01T10:00:00Z");
const now = acceptedAt + 60_000;
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
const merge = (known: readonly DesiredPod[], update: ApiPodUpdate, at = now): ApiMergeResult =>
  mergeApi(
    (uid) => known.find((each) => each.uid === uid),
    () => known,
    update,
    at,
  );
const changed = (pod: Pod): ApiPodUpdate => ({ kind: "changed", pod });
const complete = (...pods: readonly Pod[]): ApiPodUpdate => ({ kind: "complete", pods });
const gone = (uid: string): ApiPodUpdate => ({ kind: "gone", uid: uid as PodUid });
/** The desired pod after this node has received it. */
const known = (pod: Pod, at = acceptedAt): DesiredPod => merge([], changed(pod), at).added[0]!;
const fromFile: DesiredPod = { ...known(podOf("static")), source: { kind: "file", path: "/m" } };

/** `+ added  ~ changed  - ending(grace)  = refreshed  ! woken` */
function show({ added, changed: other, terminating, refreshed, woken }: ApiMergeResult): string {
  const end = ({ uid, termination: t }: DesiredPod) =>
    `${uid}${t === undefined ? "" : ` (${t.gracePeriodSeconds}s from ${(t.requestedAt - acceptedAt) / 1000}s: ${t.why})`}`;
  return [
    ...added.map((pod) => `+${end(pod)}`),
    ...other.map(({ uid, revision }) => `~${uid} r${revision}`),
    ...terminating.map((pod) => `-${end(pod)}`),
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
const rows: readonly [name: string, known: readonly DesiredPod[], update: ApiPodUpdate, says: string][] = [
  ["a new pod is added", [], changed(web), "+web"],
  ["all pods of a list are added", [], complete(web, podOf("db")), "+web +db"],
  [
    "a pod that is already deleted when it arrives terminates",
    [],
    changed(podOf("web", { metadata: deleted(5) })),
    "+web (5s from 60s: it was deleted)",
  ],
  ["an API pod with the uid of a manifest's pod is ignored", [fromFile], changed(podOf("static")), ""],
  ["a list without a manifest's pod does not remove that pod", [fromFile], complete(), ""],
  [
    "a new image changes the same pod",
    [known(web)],
    changed(podOf("web", { spec: { containers: [{ name: "a", image: "busybox:2" }] } })),
    "~web r0",
  ],
  ["a new label changes the pod", [known(web)], changed(podOf("web", { metadata: { labels: { a: "b" } } })), "~web r0"],
  [
    "a new annotation changes the pod",
    [known(web)],
    changed(podOf("web", { metadata: { annotations: { a: "b" } } })),
    "~web r0",
  ],
  [
    "an annotation of the kubelet is no change",
    [known(web)],
    changed(podOf("web", { metadata: { annotations: { "kubernetes.io/config.seen": "long ago" } } })),
    "=web",
  ],
  [
    "the status that we reported is no change",
    [known(web)],
    changed(podOf("web", { metadata: { resourceVersion: "2" }, status: { phase: "Running" } })),
    "=web",
  ],
  [
    "a pod that another client has ended is woken",
    [known(web)],
    changed(podOf("web", { status: { phase: "Failed" } })),
    "=web !web",
  ],
  [
    "a pod whose readiness gate has changed is woken",
    [known(podOf("web", gate("False")))],
    changed(podOf("web", gate("True"))),
    "=web !web",
  ],
  [
    "an unchanged readiness gate does not wake the pod",
    [known(podOf("web", gate("True")))],
    changed(podOf("web", gate("True"))),
    "=web",
  ],
  [
    "a deletion terminates the pod within the granted grace period",
    [known(web)],
    changed(podOf("web", { metadata: deleted(7) })),
    "-web (7s from 60s: it was deleted)",
  ],
  [
    "a grace period of zero becomes one second",
    [known(web)],
    changed(podOf("web", { metadata: deleted(0) })),
    "-web (1s from 60s: it was deleted)",
  ],
  ["a repeated deletion changes nothing", [ending(30)], changed(podOf("web", { metadata: deleted(30) })), "=web"],
  [
    "a second deletion with a shorter grace period ends earlier",
    [{ ...ending(300) }],
    changed(podOf("web", { metadata: deleted(5) })),
    "-web (5s from 60s: it was deleted)",
  ],
  [
    "a second deletion with a longer grace period does not end later",
    [ending(30)],
    changed(podOf("web", { metadata: deleted(600) })),
    "~web r0",
  ],
  [
    "a pod that has vanished terminates with its own grace period",
    [known(web)],
    gone("web"),
    `-web (20s from 60s: ${vanishes})`,
  ],
  ["a pod that is missing from a list has vanished too", [known(web)], complete(), `-web (20s from 60s: ${vanishes})`],
  ["a terminating pod that has vanished is woken and keeps its grace period", [ending(30)], gone("web"), "!web"],
  ["the deletion of an unknown pod changes nothing", [], gone("web"), ""],
];
for (const [name, before, update, expected] of rows)
  test(name, () => {
    expect(show(merge(before, update))).toBe(expected);
  });

test("a pod has the annotations config.source and config.seen, and keeps them through changes", () => {
  const first = known(web);
  expect(first.pod.metadata.annotations).toEqual({
    "kubernetes.io/config.source": "api",
    "kubernetes.io/config.seen": "2026-01-01T10:00:00Z",
  });
  const [after] = merge([first], changed(podOf("web", { metadata: { labels: { a: "b" } } }))).changed;
  expect(after?.pod.metadata.annotations).toEqual(first.pod.metadata.annotations!);
  expect(after?.acceptedAt).toBe(acceptedAt);
});

test("the reported startTime is kept; a malformed one is ignored", () => {
  const acceptedAtFor = (startTime: string) => known(podOf("web", { status: { startTime } })).acceptedAt;
  expect(acceptedAtFor("2026-01-01T09:00:00Z")).toBe(acceptedAt - 3_600_000);
  expect(acceptedAtFor("yesterday")).toBe(acceptedAt);
});
