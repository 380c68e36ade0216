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
import { type ContainerEvent, eventStreamsOf, readContainerdEvent, readCriEvent } from "./event-stream.ts";

describe("which source comes first", () => {
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

describe("events of the CRI", () => {
  const pod = { id: "s", metadata: { uid: "u", name: "web", namespace: "default" } };
  const named = { podUid: "u" as PodUid, podSandboxId: "s" as SandboxId };
  const rows: readonly [string, Parameters<typeof ContainerEventResponse.fromPartial>[0], ContainerEvent][] = [
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
      "what is gone has no pod any more",
      { containerId: "c", containerEventType: 3 },
      { kind: "container", change: "deleted", containerId: "c", isSandbox: undefined },
    ],
    [
      "a change that a newer runtime knows is unknown",
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
  const heard = (change: ContainerEvent["change"]): ContainerEvent => ({
    kind: "container",
    change,
    containerId: "c",
    isSandbox: undefined,
  });
  const exitedAt = { seconds: 1_700_000_000n, nanos: 5 };
  const exit = (id: string) => TaskExit.encode(TaskExit.fromPartial({ containerId: "c", id, exitStatus: 3, exitedAt }));
  const told = { exit: { exitCode: 3, finishedAt: 1_700_000_000_000_000_005n } };
  const timeless = TaskExit.encode(TaskExit.fromPartial({ containerId: "c", id: "c", exitStatus: 3 }));
  const deletion = (id: string) => TaskDelete.encode(TaskDelete.fromPartial({ containerId: "c", id }));
  const rows: readonly [string, Envelope, ContainerEvent | undefined][] = [
    [
      "a container was created: its start says more",
      envelope("containerd.events.ContainerCreate", ContainerCreate.encode({ id: "c", image: "i" })),
      undefined,
    ],
    [
      "its task was started",
      envelope("containerd.events.TaskStart", TaskStart.encode({ containerId: "c", pid: 7 })),
      heard("started"),
    ],
    [
      "its first process ended, and how",
      envelope("containerd.events.TaskExit", exit("c")),
      { ...heard("stopped"), ...told },
    ],
    ["an end at no time is only an end", envelope("containerd.events.TaskExit", timeless), heard("stopped")],
    ["a command executed in it ended: no change", envelope("containerd.events.TaskExit", exit("exec-1")), undefined],
    ["its task was deleted", envelope("containerd.events.TaskDelete", deletion("")), heard("stopped")],
    [
      "the task of a command was deleted: no change",
      envelope("containerd.events.TaskDelete", deletion("exec-1")),
      undefined,
    ],
    [
      "it was deleted",
      envelope("containerd.events.ContainerDelete", ContainerDelete.encode({ id: "c" })),
      heard("deleted"),
    ],
    [
      "a type URL with a host",
      envelope("types.example/containerd.events.TaskStart", TaskStart.encode({ containerId: "c", pid: 7 })),
      heard("started"),
    ],
    [
      "an event of another type: no change",
      envelope("containerd.events.TaskOOM", ContainerDelete.encode({ id: "c" })),
      undefined,
    ],
    ["an envelope without an event: no change", Envelope.fromPartial({}), undefined],
  ];
  for (const [name, event, expected] of rows)
    test(name, () => {
      expect(readContainerdEvent(event)).toEqual(expected as ContainerEvent);
    });
});

/** What each thing of the recorded pod went through: the sandbox first, then its containers. */
function livesOf(events: readonly (ContainerEvent | undefined)[]): readonly string[] {
  const lives = Map.groupBy(
    events.filter((event) => event !== undefined),
    ({ containerId }) => containerId,
  );
  return [...lives.values()].map((life) => [...new Set(life.map(({ change }) => change))].join(" "));
}

const recorded = [
  "created started stopped deleted",
  "created deleted",
  "created started stopped deleted",
  "created started stopped deleted",
  "created started stopped deleted",
  "created deleted",
];

test("containerd 1.6 told the life of a pod by its own events, all but the creation", async () => {
  const envelopes = await readGoldenStream("1.6", "events", Envelope);
  const lives = recorded.map((life) => life.replace("created ", ""));
  expect(livesOf(envelopes.map(readContainerdEvent)).toSorted()).toEqual(lives.toSorted());
});

test("containerd 2.1 told the whole life of a pod by events of the CRI, and whose it was", async () => {
  const responses = await readGoldenStream("2.1", "events", ContainerEventResponse);
  const events = responses.map(readCriEvent);
  expect(livesOf(events)).toEqual(recorded);
  expect(events.every(({ podUid }) => podUid === "golden-uid")).toBe(true);
  expect(events.filter(({ isSandbox }) => isSandbox).map(({ change }) => change)).toEqual([
    "created",
    "started",
    "stopped",
    "deleted",
  ]);
});
