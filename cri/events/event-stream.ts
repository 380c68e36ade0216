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
import type { Connection } from "../channel.ts";
import type { CriError } from "../error.ts";
import { runtimeVerb, type Verb, verbOf } from "../rpc-method.ts";
import type { ContainerChange, EventSource, RuntimeEvent, ToldExit } from "../runtime.ts";

export type ContainerEvent = Extract<RuntimeEvent, { kind: "container" }>;

/** A way to hear of container changes. */
export interface EventStream {
  readonly source: EventSource;
  /** Resolves with the reason when the stream has ended; UNIMPLEMENTED where the runtime does not have it. */
  follow(connection: Connection, tell: (event: ContainerEvent) => void, signal: AbortSignal): Promise<CriError>;
}

/** A message is undefined where it is no change of a container. */
interface Heard {
  readonly event: ContainerEvent | undefined;
}

// Reading is a part of decoding, so that garbage ends the stream with INTERNAL, however deep it sits.
const getContainerEvents: Verb<GetEventsRequest, Heard> = {
  ...runtimeVerb("GetContainerEvents", GetEventsRequest, ContainerEventResponse),
  decode: (bytes) => ({ event: readCriEvent(ContainerEventResponse.decode(bytes)) }),
};
const subscribe: Verb<SubscribeRequest, Heard> = {
  ...verbOf("containerd.services.events.v1.Events", "Subscribe", SubscribeRequest, Envelope),
  decode: (bytes) => ({ event: readContainerdEvent(Envelope.decode(bytes)) }),
};

const criEvents = createEventStream("cri-events", getContainerEvents, {});

/**
 * What is no news is not asked for. Commands executed in containers are no changes. Of a creation nothing follows but the start,
 * which is told; and should a creation be under way for an agent that has died, its name is taken: whoever creates the same
 * is refused, lists the pod, and finds it. Creations are half of the messages while pods start, and two thirds of the bytes.
 */
const filters = [
  `namespace==k8s.io,topic~="^/tasks/(start|exit|delete)$"`,
  `namespace==k8s.io,topic=="/containers/delete"`,
];

const containerdEvents = createEventStream("containerd-events", subscribe, { filters });

function createEventStream<Request>(source: EventSource, verb: Verb<Request, Heard>, request: Request): EventStream {
  const follow: EventStream["follow"] = (connection, tell, signal) =>
    connection.stream(verb, request, ({ event }) => event !== undefined && tell(event), signal);
  return { source, follow };
}

/**
 * The ways to try, best first. containerd's own events come some forty milliseconds before those of its CRI, which wait until a
 * container that has ended is tidied away, and they tell how it ended. Besides, 1.7 hands each event of its CRI to only one of its
 * streams, the abandoned ones included, so that events are lost after every reconnect; 1.6 has none at all.
 */
export function eventStreamsOf({ runtimeName }: Pick<VersionResponse, "runtimeName">): readonly EventStream[] {
  return runtimeName === "containerd" ? [containerdEvents, criEvents] : [criEvents, containerdEvents];
}

const changes: Readonly<Record<number, ContainerChange>> = {
  [ContainerEventType.CONTAINER_CREATED_EVENT]: "created",
  [ContainerEventType.CONTAINER_STARTED_EVENT]: "started",
  [ContainerEventType.CONTAINER_STOPPED_EVENT]: "stopped",
  [ContainerEventType.CONTAINER_DELETED_EVENT]: "deleted",
};

/** The pod's status is missing when the sandbox is gone already, and then nothing but the container's id is known. */
export function readCriEvent(event: ContainerEventResponse): ContainerEvent {
  const { containerId, containerEventType, podSandboxStatus: sandbox } = event;
  const change = changes[containerEventType] ?? "unknown";
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

/** Undefined for what is no change of a container, such as the end of a command executed in it. */
export function readContainerdEvent({ event }: Envelope): ContainerEvent | undefined {
  const bytes = event?.value ?? new Uint8Array();
  const changed = (change: ContainerChange, containerId: string, exit?: ToldExit): ContainerEvent => ({
    kind: "container",
    change,
    containerId,
    isSandbox: undefined,
    ...(exit && { exit }),
  });
  // containerd calls a type by its bare name; other writers of google.protobuf.Any put a host before it.
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
