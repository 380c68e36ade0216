import type { Runtime } from "../../../cri/runtime.ts";
import { featuresOf, type RuntimeFeatures } from "../runtime-features.ts";
import type { ObservedPods } from "./pod-cache.ts";

interface FollowedRuntime extends ObservedPods {
  readonly runtimeName: () => string;
  /** What the runtime says that it can do; undefined until it has told. */
  readonly features: () => RuntimeFeatures | undefined;
  /** What is known of the node, and with it, by the runtime's handlers, whether each can give a pod users of its own. */
  readonly facts: <F>(ofNode: F) => F & { readonly handlersWithUsers?: ReadonlyMap<string, boolean> };
}

/**
 * An outage is told, and after it the runtime is asked again for its name and what it can do: another one may have taken its place. A node
 * of a cluster asks every few seconds besides (`node.ts`), for its conditions; what pods may have must be known before the first of them, and
 * where there is no cluster too.
 */
export function withRuntimeStory(
  observed: ObservedPods,
  runtime: Pick<Runtime, "version" | "status">,
  away: (why: string) => void,
): FollowedRuntime {
  let name = "";
  let features: RuntimeFeatures | undefined;
  return {
    ...observed,
    runtimeName: () => name,
    features: () => features,
    facts: (ofNode) => ({ ...ofNode, ...(features && { handlersWithUsers: handlersWithUsers(features) }) }),
    async audit() {
      if (name === "") {
        const [version, status] = await Promise.all([runtime.version(), runtime.status()]);
        name = version.runtimeName;
        features = featuresOf(status);
      }
      await observed.audit();
    },
    lose(why) {
      name = "";
      observed.lose(why);
      if (why === undefined) return;
      const { verb, message } = why.error;
      // Which call was the first to fail says nothing to whoever asks for the pods.
      away(message.replace(`${verb}: `, ""));
    },
  };
}

function handlersWithUsers({ handlers }: RuntimeFeatures): ReadonlyMap<string, boolean> {
  return new Map(handlers.map(({ name, userNamespaces }) => [name, userNamespaces]));
}
