import type { StatusResponse } from "../../proto/cri/gen/api.ts";
import type { ObservedRuntime } from "../decide/observed-node.ts";

/** What the runtime says that it can do. */
export function abilitiesOf({
  runtimeHandlers,
  features,
}: StatusResponse): Pick<ObservedRuntime, "handlers" | "supplementalGroupsPolicy"> {
  return {
    handlers: runtimeHandlers.map(({ name, features: own }) => ({
      name,
      recursiveReadOnlyMounts: own?.recursiveReadOnlyMounts ?? false,
      userNamespaces: own?.userNamespaces ?? false,
    })),
    supplementalGroupsPolicy: features?.supplementalGroupsPolicy,
  };
}
