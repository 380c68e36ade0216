import { expect, test } from "bun:test";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import {
  missingResources,
  neededResources,
  type PodResource,
  resourcesToMake,
  resourcesToRemove,
  withoutResource,
  withResource,
} from "./resources.ts";

const podDirs: PodResource = { of: "podDirs" };
const logDir: PodResource = { of: "logDir" };
const userIds: PodResource = { of: "userIds" };
const volume = (name: string): PodResource => ({ of: "volume", name });
const podOf = (spec: Partial<PodSpec>): Pod => ({ metadata: { name: "web" }, spec: { containers: [], ...spec } });
const plain = podOf({});
const mounting = (name: string, ...volumes: readonly string[]) => ({
  name,
  image: "busybox:1",
  volumeMounts: volumes.map((each) => ({ name: each, mountPath: `/${each}` })),
});
const full = podOf({
  hostUsers: false,
  containers: [mounting("a", "two")],
  initContainers: [mounting("first", "one")],
  volumes: ["one", "unused", "two"].map((name) => ({ name, emptyDir: {} })),
});
const all = [podDirs, logDir, userIds, volume("one"), volume("two")];

test("a pod needs its directories, its log directory, its ids if it has its own user namespace, and each volume that a container uses", () => {
  expect([plain, full].map((pod) => neededResources(pod, {}))).toEqual([[podDirs, logDir], all]);
});

test("what uses a volume is a mount, a device, a variable from its file, or a mount of an ephemeral container", () => {
  const spec: PodSpec = {
    containers: [
      {
        name: "a",
        volumeDevices: [{ name: "device", devicePath: "/dev/a" }],
        env: [{ name: "A", valueFrom: { fileKeyRef: { volumeName: "variables", path: "p", key: "k" } } }],
      },
    ],
    ephemeralContainers: [mounting("debugger", "debugged")],
    volumes: ["device", "variables", "debugged", "unused"].map((name) => ({ name, emptyDir: {} })),
  };
  expect(neededResources(podOf(spec), {}).slice(2)).toEqual(["device", "variables", "debugged"].map(volume));
});

const made: readonly [sentence: string, present: readonly PodResource[], made: readonly PodResource[], now: unknown][] =
  [
    ["the directories come first: the others lie in them", [], [], [podDirs, logDir]],
    ["then its ids", [podDirs, logDir], [podDirs, logDir], [userIds]],
    ["then all its volumes at once", [podDirs, userIds], [podDirs, logDir], [volume("one"), volume("two")]],
    [
      "what failed is made again, the others are not",
      [podDirs, userIds],
      [podDirs, logDir, volume("two")],
      [volume("one")],
    ],
    [
      "a new agent makes everything again, except the recorded ids",
      all,
      [podDirs, logDir],
      [volume("one"), volume("two")],
    ],
    [
      "released ids are allocated again",
      [podDirs],
      [podDirs, logDir, userIds, volume("one"), volume("two")],
      [userIds],
    ],
    ["a directory that is present may be unfinished", all, [], [podDirs, logDir]],
    ["nothing is left to make", all, [podDirs, logDir, volume("one"), volume("two")], []],
  ];
for (const [sentence, present, ready, now] of made)
  test(`to make: ${sentence}`, () => {
    expect(resourcesToMake(missingResources(full, present, ready, {}))).toEqual(now as PodResource[]);
  });

const removed: readonly [sentence: string, present: readonly PodResource[], isCompleted: boolean, now: unknown][] = [
  ["of a completed pod the volumes first", all, true, [volume("one"), volume("two")]],
  [
    "a volume that cannot be removed is tried again before the ids",
    [podDirs, userIds, volume("two")],
    true,
    [volume("two")],
  ],
  ["then its ids", [podDirs, userIds], true, [userIds]],
  ["and its directories and logs stay", [podDirs, logDir], true, []],
  ["of a removed pod its volumes first, too, and its logs", all, false, [logDir, volume("one"), volume("two")]],
  ["and its directories last", [podDirs], false, [podDirs]],
  ["nothing is left to remove", [], false, []],
];
for (const [sentence, present, isCompleted, now] of removed)
  test(`to remove: ${sentence}`, () => {
    expect(resourcesToRemove(present, isCompleted)).toEqual(now as PodResource[]);
  });

test("a pod with a subPath needs a directory for its mounts, made behind its volumes and removed before them", () => {
  const subPaths: PodResource = { of: "subPaths" };
  const mounting = (mount: object) =>
    podOf({
      volumes: [{ name: "one", emptyDir: {} }],
      initContainers: [{ name: "a", volumeMounts: [{ name: "one", mountPath: "/v", ...mount }] }],
    });
  for (const mount of [{ subPath: "x" }, { subPathExpr: "$(X)" }])
    expect(neededResources(mounting(mount), {})).toEqual([podDirs, logDir, volume("one"), subPaths]);
  expect(neededResources(mounting({ subPath: "" }), {})).toEqual([podDirs, logDir, volume("one")]);
  const pod = mounting({ subPath: "x" });
  const made = [podDirs, logDir, volume("one")];
  expect([made.slice(0, 2), made].map((ready) => resourcesToMake(missingResources(pod, made, ready, {})))).toEqual([
    [volume("one")],
    [subPaths],
  ]);
  expect(missingResources(pod, [...made, subPaths], made, {})).toEqual([]);
  expect(resourcesToRemove([...made, subPaths], true)).toEqual([subPaths]);
  expect(resourcesToRemove([...made, userIds], true)).toEqual([volume("one")]);
});

test("a removed resource is no longer made, and a made one is listed once", () => {
  expect(withoutResource(all, volume("one"))).toEqual([podDirs, logDir, userIds, volume("two")]);
  expect(withResource(all, volume("two"))).toBe(all);
});

test("with cgroups of pods, a pod needs one; it is made first and removed after the volumes, also of a completed pod", () => {
  const cgroup: PodResource = { of: "cgroup" };
  const podCgroups = { cpuCFSQuota: true, cpuCFSQuotaPeriodMs: 100, podPidsLimit: -1, hugePageSizes: [] };
  expect(neededResources(plain, { podCgroups })).toEqual([cgroup, podDirs, logDir]);
  expect(resourcesToMake(missingResources(full, [], [], { podCgroups }))).toEqual([cgroup, podDirs, logDir]);
  // What its files lack is written by an action of its own.
  expect(missingResources(plain, [cgroup, podDirs, logDir], [podDirs, logDir], { podCgroups })).toEqual([]);
  expect(resourcesToRemove([...all, cgroup], true)).toEqual([volume("one"), volume("two")]);
  expect(resourcesToRemove([podDirs, logDir, { of: "subPaths" }, cgroup], true)).toEqual([{ of: "subPaths" }]);
  expect(resourcesToRemove([podDirs, logDir, cgroup], true)).toEqual([cgroup]);
  expect(resourcesToRemove([podDirs, logDir, cgroup], false)).toEqual([podDirs, logDir, cgroup]);
});
