import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { mergeSource, type OfferedPod, withPredecessor } from "./merge-static.ts";

const file = { kind: "file", path: "/m" } as const;
const http = { kind: "http", url: "http://pods.example" } as const;
const annotations = { "kubernetes.io/config.seen": "1970-01-01T00:00:00.001Z" };
const pod = (uid: string, name: string, more: object = {}) => ({
  metadata: { uid, name, namespace: "default" },
  spec: { containers: [], terminationGracePeriodSeconds: 20, ...more },
});
const wanted = (uid: string, name: string, more: Partial<DesiredPod> = {}): DesiredPod => ({
  uid: uid as PodUid,
  pod: { ...pod(uid, name), metadata: { ...pod(uid, name).metadata, annotations } },
  source: file,
  acceptedAt: 1,
  revision: 0,
  ...more,
});
const offer = (uid: string, name: string, more: object = {}): OfferedPod => ({
  pod: pod(uid, name, more),
  source: file,
});
const termination = { requestedAt: 1, gracePeriodSeconds: 20, why: "" };

/** `+ new  ~ changed  - ended(grace, why)` */
function show(current: readonly DesiredPod[], offered: readonly OfferedPod[]): string {
  const { added, changed, ended } = mergeSource(current, "file", offered, 50);
  return [
    ...added.map(({ uid }) => `+${uid}`),
    ...changed.map(({ uid }) => `~${uid}`),
    ...ended.map(({ uid, termination: end }) => `-${uid} (${end?.gracePeriodSeconds}s, ${end?.why})`),
  ].join(" ");
}

const rows: readonly [name: string, current: readonly DesiredPod[], offered: readonly OfferedPod[], says: string][] = [
  ["a pod that is new is added", [], [offer("1", "web")], "+1"],
  ["a pod that is known is left alone", [wanted("1", "web")], [offer("1", "web")], ""],
  ["a manifest that is gone ends its pod", [wanted("1", "web")], [], "-1 (20s, its manifest is gone)"],
  [
    "another content is another pod, and the old one ends",
    [wanted("1", "web")],
    [offer("2", "web")],
    "+2 -1 (20s, its manifest has changed)",
  ],
  [
    "a uid of its own makes it a change in place",
    [wanted("1", "web")],
    [offer("1", "web", { hostNetwork: true })],
    "~1",
  ],
  [
    "what is ending is not touched when it is asked for again",
    [wanted("1", "web", { termination })],
    [offer("1", "web")],
    "",
  ],
  ["what is ending is not ended twice", [wanted("1", "web", { termination })], [], ""],
  ["a pod of another source is not this one's to end", [wanted("1", "web", { source: http })], [], ""],
  [
    "a grace of nothing is one second",
    [wanted("1", "web", { pod: pod("1", "web", { terminationGracePeriodSeconds: 0 }) })],
    [],
    "-1 (1s, its manifest is gone)",
  ],
];
for (const [name, current, offered, says] of rows)
  test(name, () => {
    expect(show(current, offered)).toBe(says);
  });

test("a pod carries the time at which it was taken, to the millisecond, and keeps it when it changes", () => {
  const seen = ({ pod: { metadata } }: DesiredPod) => metadata.annotations;
  const { added } = mergeSource([], "file", [offer("1", "web")], Date.UTC(2026, 0, 2, 3, 4, 5, 678));
  expect(added.map(seen)).toEqual([{ "kubernetes.io/config.seen": "2026-01-02T03:04:05.678Z" }]);
  const { changed } = mergeSource(added, "file", [offer("1", "web", { hostNetwork: true })], 50);
  expect(changed.map(seen)).toEqual(added.map(seen));
});

const answers: readonly [name: string, more: Partial<DesiredPod>, becomes: DesiredPod["admission"]][] = [
  ["one that runs stays taken", {}, undefined],
  [
    "one that was rejected is asked about anew",
    { admission: { kind: "rejected", reason: "r", message: "m" } },
    { kind: "awaited" },
  ],
  ["so is one that has ended", { isPlaceFree: true }, { kind: "awaited" }],
];
for (const [name, more, becomes] of answers)
  test(`of pods that change under their own uid, ${name}`, () => {
    const { changed } = mergeSource([wanted("1", "web", more)], "file", [offer("1", "web", { hostNetwork: true })], 50);
    expect(changed.map(({ admission, isPlaceFree }) => [admission, isPlaceFree])).toEqual([[becomes, undefined]]);
  });

test("what a manifest says of that time itself does not count, and is no change", () => {
  const { metadata, spec } = pod("1", "web");
  const offered = [{ pod: { metadata: { ...metadata, annotations: { ...annotations, a: "b" } }, spec }, source: file }];
  const { added } = mergeSource([], "file", offered, 5);
  expect(added[0]?.pod.metadata.annotations).toEqual({
    "kubernetes.io/config.seen": "1970-01-01T00:00:00.005Z",
    a: "b",
  });
  expect(mergeSource(added, "file", offered, 50)).toEqual({ added: [], changed: [], ended: [] });
});

test("a pod waits for the one of its name that was accepted before it, and only for that", () => {
  const all = [wanted("1", "web"), wanted("3", "web"), wanted("4", "web")];
  expect(all.map((each) => withPredecessor(each, all).waitsFor)).toEqual([undefined, "1" as PodUid, "3" as PodUid]);
});
