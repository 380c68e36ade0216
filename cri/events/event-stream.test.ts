import { describe, expect, test } from "bun:test";
import { ContainerEventResponse, VersionResponse } from "../../proto/cri/gen/api.ts";
import {
  ContainerCreate,
  ContainerDelete,
  Envelope,
  TaskDelete,
  TaskExit,
  TaskStart,
} from "../../proto/cri/gen/containerd-events.ts";
import type { PodUid, SandboxId } from "../../proto/ids.ts";
import { readGoldenStream } from "../../test/upstream/golden-cri.ts";
import type { RuntimeContainerEvent } from "../runtime.ts";
import { eventStreamsOf, readContainerdEvent, readCriEvent } from "./event-stream.ts";

describe("the first event source", () => {
  for (const [runtimeName, runtimeVersion, sources] of [
    ["containerd", "1.6.20~ds1", ["containerd-events", "cri-events"]],
    ["containerd", "v1.7.24", ["containerd-events", "cri-events"]],
    ["containerd", "v2.1.9", ["containerd-events", "cri-events"]],
    ["cri-o", "1.33.0", ["cri-events", "containerd-events"]],
  ] as const)
    test(`${runtimeName} ${runtimeVersion}: ${sources[0]}`, () => {
      const streams = eventStreamsOf(VersionResponse.fromPartial({ runtimeName, runtimeVersion }));
      expect(streams.map(({ source }) => source)).toEqual([...sources]);
    });
});

describe("CRI events", () => {
  const pod = { id: "s", metadata: { uid: "u", name: "web", namespace: "default" } };
  const named = { podUid: "u" as PodUid, podSandboxId: "s" as SandboxId };
  const rows: readonly [string, Parameters<typeof ContainerEventResponse.fromPartial>[0], RuntimeContainerEvent][] = [
    [
      "a container was created",
      { containerId: "c", containerEventType: 0, podSandboxStatus: pod },
      { kind: "container", change: "created", containerId: "c", isSandbox: false, ...named },
    ],
    [
      "a sandbox was stopped",
      { containerId: "s", containerEventType: 2, podSandboxStatus: pod },
      { kind: "container", change: "stopped", containerId: "s", isSandbox: true, ...named },
    ],
    [
      "an event of a removed sandbox has no pod",
      { containerId: "c", containerEventType: 3 },
      { kind: "container", change: "deleted", containerId: "c", isSandbox: undefined },
    ],
    [
      "an unknown type of a newer runtime is an unknown change",
      { containerId: "c", containerEventType: 17 as never, podSandboxStatus: { id: "s" } },
      { kind: "container", change: "unknown", containerId: "c", isSandbox: false, podSandboxId: "s" as SandboxId },
    ],
  ];
  for (const [name, event, expected] of rows)
    test(name, () => {
      expect(readCriEvent(ContainerEventResponse.fromPartial(event))).toEqual(expected);
    });
});

describe("containerd's own events", () => {
  const envelope = (typeUrl: string, payload: { finish(): Uint8Array }) =>
    Envelope.fromPartial({ namespace: "k8s.io", event: { typeUrl, value: payload.finish() } });
  const changeEvent = (change: RuntimeContainerEvent["change"]): RuntimeContainerEvent => ({
    kind: "container",
    change,
    containerId: "c",
    isSandbox: undefined,
  });
  const exitedAt = { seconds: 1_700_000_000n, nanos: 5 };
  const exit = (id: string) => TaskExit.encode(TaskExit.fromPartial({ containerId: "c", id, exitStatus: 3, exitedAt }));
  const exitFields = { exit: { exitCode: 3, finishedAt: 1_700_000_000_000_000_005n } };
  const timeless = TaskExit.encode(TaskExit.fromPartial({ containerId: "c", id: "c", exitStatus: 3 }));
  const deletion = (id: string) => TaskDelete.encode(TaskDelete.fromPartial({ containerId: "c", id }));
  const rows: readonly [string, Envelope, RuntimeContainerEvent | undefined][] = [
    [
      "a created container is skipped: its start is reported",
      envelope("containerd.events.ContainerCreate", ContainerCreate.encode({ id: "c", image: "i" })),
      undefined,
    ],
    [
      "a started task",
      envelope("containerd.events.TaskStart", TaskStart.encode({ containerId: "c", pid: 7 })),
      changeEvent("started"),
    ],
    [
      "an exited task, with its exit code",
      envelope("containerd.events.TaskExit", exit("c")),
      { ...changeEvent("stopped"), ...exitFields },
    ],
    [
      "an exit without a time has no exit code",
      envelope("containerd.events.TaskExit", timeless),
      changeEvent("stopped"),
    ],
    ["an exited exec is skipped", envelope("containerd.events.TaskExit", exit("exec-1")), undefined],
    ["a deleted task", envelope("containerd.events.TaskDelete", deletion("")), changeEvent("stopped")],
    ["the deleted task of an exec is skipped", envelope("containerd.events.TaskDelete", deletion("exec-1")), undefined],
    [
      "a deleted container",
      envelope("containerd.events.ContainerDelete", ContainerDelete.encode({ id: "c" })),
      changeEvent("deleted"),
    ],
    [
      "a type URL with a host",
      envelope("types.example/containerd.events.TaskStart", TaskStart.encode({ containerId: "c", pid: 7 })),
      changeEvent("started"),
    ],
    [
      "an event of another type is skipped",
      envelope("containerd.events.TaskOOM", ContainerDelete.encode({ id: "c" })),
      undefined,
    ],
    ["an envelope without an event is skipped", Envelope.fromPartial({}), undefined],
  ];
  for (const [name, event, expected] of rows)
    test(name, () => {
      expect(readContainerdEvent(event)).toEqual(expected as RuntimeContainerEvent);
    });
});

/** The changes of each recorded sandbox and container, the sandbox first. */
function lifecyclesOf(events: readonly (RuntimeContainerEvent | undefined)[]): readonly string[] {
  const lifecycles = Map.groupBy(
    events.filter((event) => event !== undefined),
    ({ containerId }) => containerId,
  );
  return [...lifecycles.values()].map((lifecycle) => [...new Set(lifecycle.map(({ change }) => change))].join(" "));
}

const recorded = [
  "created started stopped deleted",
  "created deleted",
  "created started stopped deleted",
  "created started stopped deleted",
  "created started stopped deleted",
  "created deleted",
];

test("containerd 1.6's own events contain a pod's whole lifecycle, except for creations", async () => {
  const envelopes = await readGoldenStream("1.6", "events", Envelope);
  const lifecycles = recorded.map((lifecycle) => lifecycle.replace("created ", ""));
  expect(lifecyclesOf(envelopes.map(readContainerdEvent)).toSorted()).toEqual(lifecycles.toSorted());
});

test("containerd 2.1's CRI events contain a pod's whole lifecycle, with its uid", async () => {
  const responses = await readGoldenStream("2.1", "events", ContainerEventResponse);
  const events = responses.map(readCriEvent);
  expect(lifecyclesOf(events)).toEqual(recorded);
  expect(events.every(({ podUid }) => podUid === "golden-uid")).toBe(true);
  expect(events.filter(({ isSandbox }) => isSandbox).map(({ change }) => change)).toEqual([
    "created",
    "started",
    "stopped",
    "deleted",
  ]);
});
