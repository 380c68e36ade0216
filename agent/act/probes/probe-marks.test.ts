import { expect, test } from "bun:test";
import { FilesError } from "../../../host/fs/files.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ObservedPod, ProbeMark } from "../../decide/pod/observed.ts";
import { createProbeMarks } from "./probe-marks.ts";

const uid = "u" as PodUid;
const probe = { tcpSocket: { port: 80 } };
const desired: DesiredPod = {
  uid,
  pod: {
    metadata: { namespace: "default", name: "web", uid },
    spec: {
      containers: [
        { name: "a", image: "i", startupProbe: probe, readinessProbe: probe },
        { name: "b", image: "i", readinessProbe: probe },
        { name: "c", image: "i", livenessProbe: probe },
      ],
    },
  },
  source: { kind: "api" },
  acceptedAt: 0,
  revision: 0,
};

/** The health of each container in letters: `s` started, `r` ready; a missing container does not run. */
function observedWith(
  health: Readonly<Record<string, string>>,
  attempt: number,
  probeMarks: readonly ProbeMark[] = [],
): ObservedPod {
  const common = { image: "i", imageRef: "", hash: undefined, crashes: 0, createdAt: 1, sandboxId: "s" as SandboxId };
  const names = Object.keys(health);
  return {
    ...emptyObservedPod(uid, "default", "web"),
    probeMarks,
    containers: names.map((name) => ({
      ...{ ...common, id: name as ContainerId, name, attempt },
      state: "running" as const,
      startedAt: 1,
    })),
    health: new Map(
      names.map((name) => [
        name as ContainerId,
        { isStarted: health[name]?.includes("s") === true, isReady: health[name]?.includes("r") === true },
      ]),
    ),
  };
}

function createFixture() {
  const disk = new FakeDisk(() => 0);
  const calls: string[] = [];
  disk.before = (verb, path) => void calls.push(`${verb} ${path}`);
  const log = new FakeLog();
  const begin = () => {
    const marks = createProbeMarks(disk.at("/root"), log);
    return async (observed: ObservedPod) => {
      calls.length = 0;
      marks.onObserved(observed, desired);
      await marks.settled();
      return calls
        .filter((call) => !call.startsWith("makeFolder"))
        .map((call) => call.replace(/\/root.*containers\//, ""));
    };
  };
  return { disk, log, begin };
}

test("a container gets a mark for each probe that has succeeded, and loses it when the result changes", async () => {
  const observe = createFixture().begin();
  expect(await observe(observedWith({ a: "", b: "", c: "sr" }, 0))).toEqual([]);
  expect(await observe(observedWith({ a: "s", b: "sr", c: "sr" }, 0))).toEqual([
    "makeFile a/started-00000000",
    "makeFile b/ready-00000000",
  ]);
  expect(await observe(observedWith({ a: "s", b: "sr", c: "sr" }, 0))).toEqual([]);
  expect(await observe(observedWith({ a: "sr", b: "s", c: "sr" }, 0))).toEqual([
    "remove b/ready-00000000",
    "makeFile a/ready-00000000",
  ]);
});

test("the marks of a container remain when it has exited, until its next instance runs", async () => {
  const observe = createFixture().begin();
  await observe(observedWith({ a: "sr", b: "sr" }, 0));
  expect(await observe(observedWith({ b: "sr" }, 0))).toEqual([]);
  expect(await observe(observedWith({ a: "" }, 1))).toEqual(["remove a/started-00000000", "remove a/ready-00000000"]);
});

test("a new agent starts with the marks of the one before", async () => {
  const marks: readonly ProbeMark[] = [
    { mark: "ready", name: "b", attempt: 2 },
    { mark: "ready", name: "b", attempt: 1 },
  ];
  const observe = createFixture().begin();
  expect(await observe(observedWith({ a: "s", b: "sr" }, 2, marks))).toEqual([
    "remove b/ready-00000001",
    "makeFile a/started-00000002",
  ]);
});

test("a mark that could not be written is written at the next observation, and the failure is logged once", async () => {
  const { disk, log, begin } = createFixture();
  const observe = begin();
  const before = disk.before;
  disk.before = (verb, path) => {
    if (verb === "makeFile") throw new FilesError("ENOSPC", path, "no space left on device");
  };
  for (const _ of [1, 2]) await observe(observedWith({ b: "sr" }, 0));
  expect(log.takeLines()).toEqual(["warn: cannot record the results of probes for the next agent"]);
  disk.before = before;
  expect(await observe(observedWith({ b: "sr" }, 0))).toEqual(["makeFile b/ready-00000000"]);
  expect(log.takeLines()).toEqual([]);
});
