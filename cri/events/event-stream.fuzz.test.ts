import { expect, test } from "bun:test";
import fc from "fast-check";
import { ContainerEventResponse, type ContainerEventType } from "../../proto/cri/gen/api.ts";
import { ContainerDelete, Envelope, TaskDelete, TaskExit, TaskStart } from "../../proto/cri/gen/containerd-events.ts";
import { leastCount } from "../../test/fakes/least-count.ts";
import { isProgrammingError } from "../../test/programming-error.ts";
import type { RuntimeContainerEvent } from "../runtime.ts";
import { readContainerdEvent, readCriEvent } from "./event-stream.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const changes = ["created", "started", "stopped", "deleted", "unknown"];

function expectChange(event: RuntimeContainerEvent | undefined): void {
  if (event === undefined) return;
  expect(event.kind).toBe("container");
  expect(changes).toContain(event.change);
  expect(event.containerId).toBeString();
}

/** The assertions stay outside, so that no failed one is taken for an error of `read`. */
function attempt<T>(read: () => T): { readonly event?: T; readonly error?: unknown } {
  try {
    return { event: read() };
  } catch (error) {
    return { error };
  }
}

/** The error names what is wrong with the event; it is no fault of the reader. */
function expectRejection(error: unknown): void {
  expect(error).toBeInstanceOf(Error);
  expect(isProgrammingError(error)).toBe(false);
}

const typeUrl = fc.oneof(
  fc
    .constantFrom("ContainerDelete", "TaskStart", "TaskExit", "TaskDelete", "TaskOOM")
    .chain((name) => fc.constantFrom(`containerd.events.${name}`, `type.googleapis.com/containerd.events.${name}`)),
  fc.string(),
);
const anyEvent = fc.record({ typeUrl, value: fc.uint8Array({ maxLength: 60 }) });
const startEvent = fc.string().map((containerId) => ({
  typeUrl: "containerd.events.TaskStart",
  value: TaskStart.encode({ containerId, pid: 1 }).finish(),
}));

test(
  "an event of containerd with any content is a change, is skipped, or is an Error that ends the stream",
  () => {
    let changesRead = 0;
    const property = fc.property(fc.option(fc.oneof(anyEvent, startEvent), { nil: undefined }), (event) => {
      const result = attempt(() => readContainerdEvent(Envelope.fromPartial({ topic: "/tasks/exit", event })));
      if (result.error !== undefined) return expectRejection(result.error);
      expectChange(result.event);
      if (result.event !== undefined) changesRead += 1;
    });
    fc.assert(property, { numRuns });
    expect(changesRead).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

const id = fc.string({ unit: "binary", maxLength: 10 });

test(
  "an event of containerd is a change of its container, and the exit of an exec is skipped",
  () => {
    const messages = [
      ["deleted", "ContainerDelete", (own: string) => ContainerDelete.encode({ id: own })],
      ["started", "TaskStart", (own: string) => TaskStart.encode({ containerId: own, pid: 1 })],
      [
        "stopped",
        "TaskExit",
        (own: string, of: string) => TaskExit.encode(TaskExit.fromPartial({ containerId: own, id: of })),
      ],
      [
        "stopped",
        "TaskDelete",
        (own: string, of: string) => TaskDelete.encode(TaskDelete.fromPartial({ containerId: own, id: of })),
      ],
    ] as const;
    const property = fc.property(
      fc.constantFrom(...messages),
      fc.string(),
      fc.option(fc.string()),
      (message, own, of) => {
        const [change, name, encode] = message;
        const value = encode(own, of ?? own).finish();
        const event = readContainerdEvent(
          Envelope.fromPartial({ event: { typeUrl: `containerd.events.${name}`, value } }),
        );
        const isOfCommand = change === "stopped" && of !== null && of !== "" && of !== own;
        expect(event).toEqual(
          isOfCommand ? undefined : { kind: "container", change, containerId: own, isSandbox: undefined },
        );
      },
    );
    fc.assert(property, { numRuns });
  },
  longMs,
);

test(
  "a CRI event with any content is a change",
  () => {
    const sandbox = fc.option(fc.record({ id, metadata: fc.option(fc.record({ uid: id }), { nil: undefined }) }), {
      nil: undefined,
    });
    const property = fc.property(id, fc.integer(), sandbox, (containerId, number, podSandboxStatus) => {
      // A newer runtime may have more types.
      const containerEventType = number as ContainerEventType;
      const event = readCriEvent(
        ContainerEventResponse.fromPartial({ containerId, containerEventType, podSandboxStatus }),
      );
      expectChange(event);
      expect(event.containerId).toBe(containerId);
      expect(event.isSandbox).toBe(podSandboxStatus === undefined ? undefined : podSandboxStatus.id === containerId);
      expect(event.podUid ?? "").toBe((podSandboxStatus?.metadata?.uid ?? "") as typeof event.podUid & string);
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);
