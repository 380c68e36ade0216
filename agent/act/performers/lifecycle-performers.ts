import type { LifecycleAction } from "../../decide/actions/lifecycle-actions.ts";
import { instanceKey } from "../../decide/pod/observed.ts";
import { type HookDeps, type HookInput, runPostStart, runPreStop, stopContainer } from "../hooks/lifecycle-hooks.ts";
import type { ActDeps, ActInput, Performers } from "./performer.ts";

export const lifecyclePerformers: Performers<LifecycleAction> = {
  runPostStart: {
    perform: (deps, input, action, signal) => runPostStart(toHookDeps(deps), toHookInput(input), action, signal),
    effect: (action) => ({ kind: "hook", id: action.id, instance: instanceKey(action), isPending: false }),
  },
  runPreStop: {
    perform: (deps, input, action, signal) => runPreStop(toHookDeps(deps), toHookInput(input), action, signal),
    effect: ({ id }) => ({ kind: "containerAndFiles", id }),
  },
  stopContainer: {
    perform: (deps, input, action, signal) => stopContainer(toHookDeps(deps), toHookInput(input), action, signal),
    effect: ({ id, preStop }) => ({ kind: preStop === true ? "containerAndFiles" : "container", id }),
    // A preStop hook may run long after its container has exited by itself, so such a stop must not hide the exit
    // event.
    stopping: ({ id, preStop }) => (preStop === true ? undefined : id),
  },
};

const toHookDeps = ({ runtime, clock, disk: { root }, facts, stops }: ActDeps): HookDeps => ({
  ...{ runtime, clock, root, facts, stops },
});
const toHookInput = ({ desired, observed }: ActInput): HookInput => ({ pod: desired?.pod, observed });
