import {
  ContainerEventResponse,
  ContainerEventType,
  GetEventsRequest,
  type VersionResponse,
} from "../../proto/cri/gen/api.ts";
import {
  ContainerDelete,
  Envelope,
  SubscribeRequest,
  TaskDelete,
  TaskExit,
  TaskStart,
} from "../../proto/cri/gen/containerd-events.ts";
import type { PodUid, SandboxId } from "../../proto/ids.ts";
import type { Channel } from "../channel.ts";
import type { CriError } from "../error.ts";
import { type RpcMethod, rpcMethod, runtimeMethod } from "../rpc-method.ts";
import type { ContainerChange, EventExit, RuntimeContainerEvent, RuntimeEventSource } from "../runtime.ts";

/** One kind of event stream for container changes. */
export interface EventStream {
  readonly source: RuntimeEventSource;
  /** Resolves with the reason when the stream has ended; UNIMPLEMENTED if the runtime does not offer it. */
  run(channel: Channel, onEvent: (event: RuntimeContainerEvent) => void, signal: AbortSignal): Promise<CriError>;
}

/** A decoded message; `event` is undefined if it is not about a container, such as the exit of an exec. */
interface DecodedEvent {
  readonly event: RuntimeContainerEvent | undefined;
}

// The event is read during decoding, so that a malformed message ends the stream with INTERNAL at any depth.
const criGetContainerEvents: RpcMethod<GetEventsRequest, DecodedEvent> = {
  ...runtimeMethod("GetContainerEvents", GetEventsRequest, ContainerEventResponse),
  decode: (bytes) => ({ event: readCriEvent(ContainerEventResponse.decode(bytes)) }),
};
const containerdSubscribe: RpcMethod<SubscribeRequest, DecodedEvent> = {
  ...rpcMethod("containerd.services.events.v1.Events", "Subscribe", SubscribeRequest, Envelope),
  decode: (bytes) => ({ event: readContainerdEvent(Envelope.decode(bytes)) }),
};

const criEvents = createEventStream("cri-events", criGetContainerEvents, {});

/**
 * The subscription leaves out what the agent does not need: execs, and creations. A creation is followed by a start,
 * which is reported. If an agent dies during a creation, the container's name is reserved: the next agent's creation is
 * rejected, it lists the pod and finds the container. Creations are half of the messages while pods start, and two
 * thirds of the bytes.
 */
const filters = [
  `namespace==k8s.io,topic~="^/tasks/(start|exit|delete)$"`,
  `namespace==k8s.io,topic=="/containers/delete"`,
];

const containerdEvents = createEventStream("containerd-events", containerdSubscribe, { filters });

function createEventStream<Request>(
  source: RuntimeEventSource,
  method: RpcMethod<Request, DecodedEvent>,
  request: Request,
): EventStream {
  const run: EventStream["run"] = (channel, onEvent, signal) =>
    channel.stream(method, request, ({ event }) => event !== undefined && onEvent(event), signal);
  return { source, run };
}

/**
 * The event streams to try, the best first. containerd's own events arrive about 40 ms before its CRI events, which
 * wait for the cleanup of the exited container, and they carry the exit code. Besides, containerd 1.7 delivers each CRI
 * event to only one of its streams, abandoned ones included, so that events are lost after every reconnect; 1.6 has no
 * CRI events.
 */
export function eventStreamsOf({ runtimeName }: Pick<VersionResponse, "runtimeName">): readonly EventStream[] {
  return runtimeName === "containerd" ? [containerdEvents, criEvents] : [criEvents, containerdEvents];
}

const changesByType: Readonly<Record<number, ContainerChange>> = {
  [ContainerEventType.CONTAINER_CREATED_EVENT]: "created",
  [ContainerEventType.CONTAINER_STARTED_EVENT]: "started",
  [ContainerEventType.CONTAINER_STOPPED_EVENT]: "stopped",
  [ContainerEventType.CONTAINER_DELETED_EVENT]: "deleted",
};

/**
 * Converts a CRI event. If the sandbox is gone already, the event has no pod status, and only the container's id is
 * known.
 *
 * @internal
 */
export function readCriEvent(event: ContainerEventResponse): RuntimeContainerEvent {
  const { containerId, containerEventType, podSandboxStatus: sandbox } = event;
  const change = changesByType[containerEventType] ?? "unknown";
  if (sandbox === undefined) return { kind: "container", change, containerId, isSandbox: undefined };
  const podSandboxId = sandbox.id as SandboxId;
  const uid = sandbox.metadata?.uid ?? "";
  return {
    kind: "container",
    change,
    containerId,
    podSandboxId,
    isSandbox: containerId === podSandboxId,
    ...(uid === "" ? {} : { podUid: uid as PodUid }),
  };
}

/**
 * Converts an event of containerd. Undefined if it is not about a container itself, such as the exit of an exec.
 *
 * @internal
 */
export function readContainerdEvent({ event }: Envelope): RuntimeContainerEvent | undefined {
  const bytes = event?.value ?? new Uint8Array();
  const changed = (change: ContainerChange, containerId: string, exit?: EventExit): RuntimeContainerEvent => ({
    kind: "container",
    change,
    containerId,
    isSandbox: undefined,
    ...(exit && { exit }),
  });
  // containerd uses the bare type name; other writers of google.protobuf.Any prefix a host.
  switch (event?.typeUrl.split("/").at(-1)) {
    case "containerd.events.ContainerDelete":
      return changed("deleted", ContainerDelete.decode(bytes).id);
    case "containerd.events.TaskStart":
      return changed("started", TaskStart.decode(bytes).containerId);
    case "containerd.events.TaskExit":
      return exited(TaskExit.decode(bytes));
    case "containerd.events.TaskDelete":
      return stopped(TaskDelete.decode(bytes));
    default:
      return undefined;
  }

  function stopped({ containerId, id }: TaskDelete) {
    return id === "" || id === containerId ? changed("stopped", containerId) : undefined;
  }
  function exited({ containerId, id, exitStatus: exitCode, exitedAt }: TaskExit) {
    if (id !== "" && id !== containerId) return undefined;
    const finishedAt = (exitedAt?.seconds ?? 0n) * 1_000_000_000n + BigInt(exitedAt?.nanos ?? 0);
    return changed("stopped", containerId, finishedAt > 0n ? { exitCode, finishedAt } : undefined);
  }
}
