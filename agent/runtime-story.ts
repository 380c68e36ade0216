import type { Runtime } from "../cri/runtime.ts";
import type { ObservedRuntime } from "./decide/observed-node.ts";
import { abilitiesOf } from "./observed/abilities.ts";
import type { ObservedPods } from "./observed/pods.ts";
import type { NodeStory } from "./report/node-story.ts";
import type { NodeFacts } from "./translate/node-facts.ts";

export type Abilities = Pick<ObservedRuntime, "handlers" | "supplementalGroupsPolicy">;

interface FollowedRuntime extends ObservedPods {
  readonly runtimeName: () => string;
  /** What the runtime says that it can do; undefined until it has told. */
  readonly abilities: () => Abilities | undefined;
  /** What is known of the node, and this with it. */
  readonly facts: (ofNode: NodeFacts) => NodeFacts;
}

/** An outage is told, and after it the runtime is asked again for its name and what it can do: another one may have taken its place. */
export function withRuntimeStory(observed: ObservedPods, runtime: Runtime, node: NodeStory): FollowedRuntime {
  let name = "";
  let abilities: Abilities | undefined;
  return {
    ...observed,
    runtimeName: () => name,
    abilities: () => abilities,
    facts: (ofNode) => ({ ...ofNode, ...(abilities && { handlersWithUsers: handlersWithUsers(abilities) }) }),
    async audit() {
      if (name === "") {
        const [version, status] = await Promise.all([runtime.version(), runtime.status()]);
        name = version.runtimeName;
        abilities = abilitiesOf(status);
      }
      await observed.audit();
    },
    lose(why) {
      name = "";
      observed.lose(why);
      if (why === undefined) return;
      const { verb, message } = why.error;
      // Which call was the first to fail says nothing to whoever asks for the pods.
      node.runtimeAway(message.replace(`${verb}: `, ""));
    },
  };
}

function handlersWithUsers({ handlers }: Abilities): ReadonlyMap<string, boolean> {
  return new Map(handlers.map(({ name, userNamespaces }) => [name, userNamespaces]));
}
