import type { ActionClass, ActionRecord, ActionRecords } from "../actions/action-record.ts";
import { type ContainerAction, containerActions } from "../actions/container-actions.ts";
import type { FailureKey } from "../actions/failure-key.ts";
import { type ImageAction, imageActions } from "../actions/image-actions.ts";
import { type LifecycleAction, lifecycleActions } from "../actions/lifecycle-actions.ts";
import { type ResizeAction, resizeActions } from "../actions/resize-actions.ts";
import { type ResourceAction, resourceActions } from "../actions/resource-actions.ts";
import { type SandboxAction, sandboxActions } from "../actions/sandbox-actions.ts";

/**
 * Everything the agent can do to the node for one pod, as data. `act/` performs each action with one outside call, so
 * that the agent can observe and decide on every state between two calls.
 */
export type Action = ResourceAction | ImageAction | SandboxAction | ContainerAction | LifecycleAction | ResizeAction;

export type ActionKind = Action["kind"];

/**
 * The one table of what the agent knows of each kind of action.
 *
 * @internal
 */
export const actionRecords = {
  ...resourceActions,
  ...imageActions,
  ...sandboxActions,
  ...containerActions,
  ...lifecycleActions,
  ...resizeActions,
} satisfies ActionRecords<Action>;

export function recordOf(action: Action): ActionRecord<Action> {
  return actionRecords[action.kind];
}

/** One English sentence per action: the log line, the basis of the Event, and what the tests expect. */
export function describe(action: Action): string {
  return recordOf(action).describe(action);
}

export function failureKeyOf(action: Action): FailureKey {
  return recordOf(action).failureKey(action);
}

/** The class of an action, by which the loop limits it. */
export function classOf(action: Action): ActionClass {
  return recordOf(action).actionClass;
}

/** Identifies what an action does to which target, whatever its reason and grace period. */
export interface ActionKey {
  readonly kind: ActionKind;
  readonly failureKey: FailureKey;
  readonly attempt: number | undefined;
  /** Of a volume: a later version is another action. */
  readonly content: string | undefined;
  /** Of a resize: other amounts or limits are another action. */
  readonly resources: object | undefined;
}

export function actionKeyOf(action: Action): ActionKey {
  return {
    kind: action.kind,
    failureKey: failureKeyOf(action),
    attempt: "attempt" in action ? action.attempt : undefined,
    content: "content" in action ? action.content : undefined,
    resources: "amounts" in action ? action.amounts : "limits" in action ? action.limits : undefined,
  };
}
