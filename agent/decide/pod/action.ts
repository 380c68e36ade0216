import type { ContainerId, SandboxId } from "../../../proto/ids.ts";

/**
 * Everything the agent can do to the node for one pod. Data only: `act/` carries it out with one outside call each, so that
 * every state between two calls can be observed and decided upon.
 */
export type Action =
  | { readonly kind: "prepareVolumes" }
  | { readonly kind: "pullImage"; readonly image: string; readonly why: string }
  | {
      readonly kind: "runSandbox";
      readonly attempt: number;
      /** Written on it, so that the delay survives the agent. */
      readonly crashes: number;
      readonly why: string;
    }
  | {
      readonly kind: "createContainer";
      readonly name: string;
      readonly attempt: number;
      readonly sandboxId: SandboxId;
      readonly podIPs: readonly string[];
      readonly image: string;
      readonly imageRef: string;
      /** Written to the container, so that the back-off survives the agent. */
      readonly crashes: number;
      readonly why: string;
    }
  | { readonly kind: "startContainer"; readonly name: string; readonly id: ContainerId; readonly attempt: number }
  /** The `postStart` hook of a container that has just been started. */
  | { readonly kind: "runHook"; readonly name: string; readonly id: ContainerId; readonly attempt: number }
  /** The `preStop` hook of a container whose turn to be stopped is still to come; it is part of the same grace. */
  | {
      readonly kind: "runPreStop";
      readonly name: string;
      readonly id: ContainerId;
      readonly gracePeriodSeconds: number;
      readonly why: string;
      readonly isForSandbox?: true;
    }
  | {
      readonly kind: "stopContainer";
      readonly name: string;
      readonly id: ContainerId;
      readonly gracePeriodSeconds: number;
      /** Its `preStop` hook is run first, within the same grace. */
      readonly preStop?: true;
      readonly why: string;
      /** What users are told, where it is more than that the container is stopped. */
      readonly event?: string;
      /** Its sandbox is replaced, of which users are told first. */
      readonly isForSandbox?: true;
    }
  | {
      readonly kind: "removeContainer";
      readonly name: string;
      readonly id: ContainerId;
      readonly why: string;
      /** It is to begin anew, and is not to be missed: a mark on the disk says so. */
      readonly isCleared?: true;
    }
  | { readonly kind: "stopSandbox"; readonly id: SandboxId; readonly why: string }
  | { readonly kind: "removeSandbox"; readonly id: SandboxId; readonly why: string }
  /** What a pod that has come to its end by itself has in emptyDirs: nobody can read it any more. */
  | { readonly kind: "removeVolumes"; readonly why: string }
  /** The user and group ids that a pod with users of its own has had, for others to have. */
  | { readonly kind: "releaseIds"; readonly why: string }
  | { readonly kind: "removePodFiles"; readonly why: string };

export type ActionKind = Action["kind"];

/** One English sentence per action: the log line, the basis of the Event, and what tests expect. */
export function describe(action: Action): string {
  switch (action.kind) {
    case "prepareVolumes":
      return "prepare volumes";
    case "pullImage":
      return `pull image ${action.image}: ${action.why}`;
    case "runSandbox":
      return `run sandbox (attempt ${action.attempt}): ${action.why}`;
    case "createContainer":
      return `create container ${action.name} (attempt ${action.attempt}): ${action.why}`;
    case "startContainer":
      return `start container ${action.name} (attempt ${action.attempt})`;
    case "runHook":
      return `run the postStart hook of container ${action.name} (attempt ${action.attempt})`;
    case "runPreStop":
      return `run the preStop hook of container ${action.name} within ${action.gracePeriodSeconds}s: ${action.why}`;
    case "stopContainer":
      return `stop container ${action.name}${action.preStop ? ", its preStop hook first," : ""} within ${action.gracePeriodSeconds}s: ${action.why}`;
    case "removeContainer":
      return `remove container ${action.name}: ${action.why}`;
    case "stopSandbox":
      return `stop sandbox: ${action.why}`;
    case "removeSandbox":
      return `remove sandbox: ${action.why}`;
    case "removeVolumes":
      return `remove the pod's volumes: ${action.why}`;
    case "releaseIds":
      return `release the pod's user ids: ${action.why}`;
    case "removePodFiles":
      return `remove the pod's files: ${action.why}`;
  }
}

/**
 * What an action is about. Failures are counted per subject, so that a second try after a failure is known as such, and
 * success at a subject forgives its failures.
 */
export function subjectOf(action: Action): string {
  switch (action.kind) {
    case "prepareVolumes":
      return "volumes";
    case "pullImage":
      return `image ${action.image}`;
    case "runSandbox":
      return "sandbox";
    case "createContainer":
    case "startContainer":
      return `container ${action.name}`;
    case "runHook":
      return `hook of container ${action.id}`;
    case "runPreStop":
    case "stopContainer":
    case "removeContainer":
      return `end of container ${action.id}`;
    case "stopSandbox":
    case "removeSandbox":
      return `end of sandbox ${action.id}`;
    case "removeVolumes":
      return "end of volumes";
    case "releaseIds":
      return "user ids";
    case "removePodFiles":
      return "files";
  }
}

/** Equal for two actions that ask for the same thing to be done to the same thing, whatever the reason and the grace. */
export function identityOf(action: Action): string {
  const attempt = "attempt" in action ? ` #${action.attempt}` : "";
  return `${action.kind} ${subjectOf(action)}${attempt}`;
}

/**
 * How the loop rations an action: starts are bounded, endings have room of their own; pulls and hooks run beside the pod's turns, and so do
 * stops, which may last as long as a grace. A pod that has to end gives up the former, not the latter.
 */
export type ActionLane = "start" | "end" | "stop" | "background";

/** The lane in which the loop carries an action out. */
export function laneOf(action: Action): ActionLane {
  switch (action.kind) {
    case "prepareVolumes":
    case "runSandbox":
    case "createContainer":
    case "startContainer":
      return "start";
    case "pullImage":
    case "runHook":
      return "background";
    case "runPreStop":
    case "stopContainer":
      return "stop";
    case "removeContainer":
    case "stopSandbox":
    case "removeSandbox":
    case "removeVolumes":
    case "releaseIds":
    case "removePodFiles":
      return "end";
  }
}
