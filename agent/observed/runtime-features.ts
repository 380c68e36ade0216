import type { StatusResponse } from "../../proto/cri/gen/api.ts";
import type { ObservedRuntime } from "../decide/node/observed-node.ts";

/** The features that the runtime and its handlers report. */
export type RuntimeFeatures = Pick<ObservedRuntime, "handlers" | "supplementalGroupsPolicy">;

/**
 * A handler feature that is missing in the status is not supported; a missing `supplementalGroupsPolicy` is unknown.
 */
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
