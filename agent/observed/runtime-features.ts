import type { StatusResponse } from "../../proto/cri/gen/api.ts";
import type { ObservedRuntime } from "../decide/node/observed-node.ts";

/** What the runtime and its handlers say that they can do. */
export type RuntimeFeatures = Pick<ObservedRuntime, "handlers" | "supplementalGroupsPolicy">;

/** What a runtime leaves out it cannot do; of `supplementalGroupsPolicy` that is not known then. */
export function featuresOf({ runtimeHandlers, features }: StatusResponse): RuntimeFeatures {
  return {
    handlers: runtimeHandlers.map(({ name, features: own }) => ({
      name,
      recursiveReadOnlyMounts: own?.recursiveReadOnlyMounts ?? false,
      userNamespaces: own?.userNamespaces ?? false,
    })),
    supplementalGroupsPolicy: features?.supplementalGroupsPolicy,
  };
}
