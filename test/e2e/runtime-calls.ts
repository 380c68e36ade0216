import { createReadStream } from "node:fs";
import { text } from "node:stream/consumers";

/** What a call to the runtime does: it runs a sandbox, creates or starts a container, pulls, or stops one of the former. */
export type CallClass = "sandbox" | "create" | "start" | "pull" | "stop";

/** A call by containerd's log. */
export interface RuntimeCall {
  readonly class: CallClass;
  /** The verb and what it was called for, such as `StartContainer for "0123…"`. */
  readonly name: string;
  /** In milliseconds since the epoch. */
  readonly fromMs: number;
  /** The uid of the pod that it was called for, if the log shows it. */
  readonly podUid: string | undefined;
  /** The name of the container that it was called for. */
  readonly container: string | undefined;
  /** The id of the container that it was called for, if that existed before the call. */
  readonly containerId: string | undefined;
}

/** A call that has failed, or whose containerd has ended. */
export interface UnfinishedCall extends RuntimeCall {
  /** When it failed, or when the next containerd started. */
  readonly untilMs: number;
}

export interface RuntimeCalls {
  /** The calls that have started and not returned, of the containerd that runs. */
  readonly inFlight: readonly RuntimeCall[];
  /** The calls that were in flight when their containerd ended. */
  readonly interrupted: readonly UnfinishedCall[];
  /** The calls that returned with an error, such as those that the end of the agent has cancelled. */
  readonly failed: readonly UnfinishedCall[];
}

const CLASS_OF_VERB: Readonly<Record<string, CallClass>> = {
  RunPodSandbox: "sandbox",
  CreateContainer: "create",
  StartContainer: "start",
  PullImage: "pull",
  StopContainer: "stop",
  StopPodSandbox: "stop",
};
const CALL = new RegExp(String.raw`msg="((${Object.keys(CLASS_OF_VERB).join("|")}) (?:[^"\\]|\\.)*)"`);
const FAILURE = / failed/;
const TIME = /^time="([^"]+)"/;
const SANDBOX_CREATED = /^RunPodSandbox for &PodSandboxMetadata\{.* returns sandbox id "([0-9a-f]{64})"/;
const CONTAINER_CREATED = /^CreateContainer within sandbox .* returns container id "([0-9a-f]{64})"/;
const RETURN = / (?:returns |failed).*$/;
/** The first line of each process. */
const FIRST_LINE = 'msg="starting containerd"';

/** Reads the calls from the log of containerd 1.6. */
export function readRuntimeCalls(log: string): RuntimeCalls {
  const replay = createCallReplay();
  replay.add(log);
  return replay.calls();
}

/** Follows containerd's log file: each call of the result reads what was added. */
export function followRuntimeCalls(logFile: string): () => Promise<RuntimeCalls> {
  const replay = createCallReplay();
  let start = 0;
  return async () => {
    const added = await text(createReadStream(logFile, { start }));
    // The last line may be incomplete. It is read again with its end.
    const whole = added.slice(0, added.lastIndexOf("\n") + 1);
    start += Buffer.byteLength(whole);
    replay.add(whole);
    return replay.calls();
  };
}

function createCallReplay() {
  let inFlight: readonly RuntimeCall[] = [];
  const interrupted: UnfinishedCall[] = [];
  const failed: UnfinishedCall[] = [];
  const owners = createOwners();
  const addLine = (line: string) => {
    const atMs = Date.parse(TIME.exec(line)?.[1] ?? "");
    if (line.includes(FIRST_LINE)) {
      interrupted.push(...inFlight.map((call) => ({ ...call, untilMs: atMs })));
      inFlight = [];
    }
    const [, message = "", verb = ""] = CALL.exec(line) ?? [];
    const callClass = CLASS_OF_VERB[verb];
    if (callClass === undefined) return;
    const name = nameOf(message);
    if (!RETURN.test(message)) {
      inFlight = [...inFlight, { class: callClass, name, fromMs: atMs, ...owners.ownerOf(name) }];
      return;
    }
    owners.addReturn(name, message.replaceAll("\\", ""));
    // One of two equal calls: StopPodSandbox may be repeated while the first one lasts.
    const call = inFlight.find((each) => each.name === name);
    inFlight = inFlight.filter((each) => each !== call);
    if (call !== undefined && FAILURE.test(message)) failed.push({ ...call, untilMs: atMs });
  };
  return {
    add: (log: string) => log.split("\n").forEach(addLine),
    calls: (): RuntimeCalls => ({ inFlight, interrupted, failed }),
  };
}

type CallOwner = Pick<RuntimeCall, "podUid" | "container" | "containerId">;

/** Finds the pod and the container of a call by the ids that earlier calls have returned. */
function createOwners() {
  const byId = new Map<string, CallOwner>();
  const ownerOf = (name: string): CallOwner => {
    const [, id = ""] = /"([0-9a-f]{64})"/.exec(name) ?? [];
    const owner = byId.get(id) ?? { podUid: undefined, container: undefined, containerId: undefined };
    const [, podUid = owner.podUid] = /&PodSandboxMetadata\{Name:[^,]*,Uid:([^,]*),/.exec(name) ?? [];
    const [, container = owner.container] = /&ContainerMetadata\{Name:([^,]*),/.exec(name) ?? [];
    return { ...owner, podUid, container };
  };
  const addReturn = (name: string, message: string) => {
    const [, sandboxId] = SANDBOX_CREATED.exec(message) ?? [];
    if (sandboxId !== undefined) byId.set(sandboxId, ownerOf(name));
    const [, containerId] = CONTAINER_CREATED.exec(message) ?? [];
    if (containerId !== undefined) byId.set(containerId, { ...ownerOf(name), containerId });
  };
  return { ownerOf, addReturn };
}

/** The beginning of a message, which the lines of the call and of its return have in common. */
const nameOf = (message: string) =>
  message
    .replace(RETURN, "")
    .replace(/ with timeout .*$/, "")
    .replace(" for container &", " for &")
    .replaceAll("\\", "");
