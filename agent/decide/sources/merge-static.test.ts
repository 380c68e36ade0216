import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { type ManifestPod, mergeManifests, withPredecessor } from "./merge-static.ts";

const file = { kind: "file", path: "/m" } as const;
const http = { kind: "http", url: "http://pods.example" } as const;
const annotations = { "kubernetes.io/config.seen": "1970-01-01T00:00:00.001Z" };
const pod = (uid: string, name: string, more: object = {}) => ({
  metadata: { uid, name, namespace: "default" },
  spec: { containers: [], terminationGracePeriodSeconds: 20, ...more },
});
const desiredPod = (uid: string, name: string, more: Partial<DesiredPod> = {}): DesiredPod => ({
  uid: uid as PodUid,
  pod: { ...pod(uid, name), metadata: { ...pod(uid, name).metadata, annotations } },
  source: file,
  acceptedAt: 1,
  revision: 0,
  ...more,
});
const manifestPod = (uid: string, name: string, more: object = {}): ManifestPod => ({
  pod: pod(uid, name, more),
  source: file,
});
const termination = { requestedAt: 1, gracePeriodSeconds: 20, why: "" };

/** `+ added  ~ changed  - terminating(grace, why)` */
function show(current: readonly DesiredPod[], manifests: readonly ManifestPod[]): string {
  const { added, changed, terminating } = mergeManifests(current, "file", manifests, 50);
  return [
    ...added.map(({ uid }) => `+${uid}`),
    ...changed.map(({ uid }) => `~${uid}`),
    ...terminating.map(({ uid, termination: end }) => `-${uid} (${end?.gracePeriodSeconds}s, ${end?.why})`),
  ].join(" ");
}

const rows: readonly [name: string, current: readonly DesiredPod[], offered: readonly ManifestPod[], says: string][] = [
  ["a new pod is added", [], [manifestPod("1", "web")], "+1"],
  ["a known pod is unchanged", [desiredPod("1", "web")], [manifestPod("1", "web")], ""],
  ["a removed manifest terminates its pod", [desiredPod("1", "web")], [], "-1 (20s, its manifest is gone)"],
  [
    "changed content is a new pod, and the old one terminates",
    [desiredPod("1", "web")],
    [manifestPod("2", "web")],
    "+2 -1 (20s, its manifest has changed)",
  ],
  [
    "changed content with a uid of its own changes the pod in place",
    [desiredPod("1", "web")],
    [manifestPod("1", "web", { hostNetwork: true })],
    "~1",
  ],
  [
    "a terminating pod is unchanged when its manifest is back",
    [desiredPod("1", "web", { termination })],
    [manifestPod("1", "web")],
    "",
  ],
  ["a terminating pod is not terminated twice", [desiredPod("1", "web", { termination })], [], ""],
  ["a pod of another source is not terminated", [desiredPod("1", "web", { source: http })], [], ""],
  [
    "a grace period of zero becomes one second",
    [desiredPod("1", "web", { pod: pod("1", "web", { terminationGracePeriodSeconds: 0 }) })],
    [],
    "-1 (1s, its manifest is gone)",
  ],
];
for (const [name, current, manifests, expected] of rows)
  test(name, () => {
    expect(show(current, manifests)).toBe(expected);
  });

test("a pod has the time of its acceptance in config.seen, to the millisecond, and keeps it through changes", () => {
  const annotationsOf = ({ pod: { metadata } }: DesiredPod) => metadata.annotations;
  const { added } = mergeManifests([], "file", [manifestPod("1", "web")], Date.UTC(2026, 0, 2, 3, 4, 5, 678));
  expect(added.map(annotationsOf)).toEqual([{ "kubernetes.io/config.seen": "2026-01-02T03:04:05.678Z" }]);
  const { changed } = mergeManifests(added, "file", [manifestPod("1", "web", { hostNetwork: true })], 50);
  expect(changed.map(annotationsOf)).toEqual(added.map(annotationsOf));
});

test("another order of fields is no change, and another order of containers is one", () => {
  const spec = (containers: readonly object[]) => manifestPod("1", "web", { containers } as never);
  const { added } = mergeManifests([], "file", [spec([{ name: "a", image: "i" }, { name: "b" }])], 5);
  const changesOf = (manifest: ManifestPod) => mergeManifests(added, "file", [manifest], 50).changed.length;
  expect(changesOf(spec([{ image: "i", name: "a" }, { name: "b" }]))).toBe(0);
  expect(changesOf(spec([{ name: "b" }, { name: "a", image: "i" }]))).toBe(1);
  expect(changesOf(spec([{ name: "a", image: "i" }]))).toBe(1);
});

const admissionRows: readonly [name: string, more: Partial<DesiredPod>, becomes: DesiredPod["admission"]][] = [
  ["a running one stays admitted", {}, undefined],
  [
    "a rejected one is admitted again",
    { admission: { kind: "rejected", reason: "r", message: "m" } },
    { kind: "awaited" },
  ],
  ["a terminated one is admitted again", { hasReleasedResources: true }, { kind: "awaited" }],
];
for (const [name, more, becomes] of admissionRows)
  test(`of pods that change under their own uid, ${name}`, () => {
    const { changed } = mergeManifests(
      [desiredPod("1", "web", more)],
      "file",
      [manifestPod("1", "web", { hostNetwork: true })],
      50,
    );
    expect(changed.map(({ admission, hasReleasedResources }) => [admission, hasReleasedResources])).toEqual([
      [becomes, undefined],
    ]);
  });

test("config.seen in a manifest is ignored and is no change", () => {
  const { metadata, spec } = pod("1", "web");
  const manifests = [
    { pod: { metadata: { ...metadata, annotations: { ...annotations, a: "b" } }, spec }, source: file },
  ];
  const { added } = mergeManifests([], "file", manifests, 5);
  expect(added[0]?.pod.metadata.annotations).toEqual({
    "kubernetes.io/config.seen": "1970-01-01T00:00:00.005Z",
    a: "b",
  });
  expect(mergeManifests(added, "file", manifests, 50)).toEqual({ added: [], changed: [], terminating: [] });
});

test("a pod waits for the pod of its name that was accepted before it, and for no other", () => {
  const all = [desiredPod("1", "web"), desiredPod("3", "web"), desiredPod("4", "web")];
  expect(all.map((each) => withPredecessor(each, all).predecessorUid)).toEqual([
    undefined,
    "1" as PodUid,
    "3" as PodUid,
  ]);
});
