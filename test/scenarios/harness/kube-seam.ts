import type { KubeClient } from "../../../kube/client.ts";
import type { KubeObject, Resource } from "../../../kube/resource.ts";
import type { FakeKube } from "../../fakes/kube.ts";
import type { VerbsOf } from "./adapter-verbs.ts";
import type { AgentLifetime } from "./deaths.ts";

const kubeVerbs = {
  get: "reads",
  list: "reads",
  isServed: "reads",
  create: "mutates",
  // The server keeps nothing of a token that it issues.
  requestToken: "reads",
  replace: "mutates",
  patch: "mutates",
  delete: "mutates",
  listAndWatch: "follows",
  subscribeToRecovery: "follows",
} as const satisfies VerbsOf<KubeClient>;

/** The API server of one agent. */
export function kubeSeam(kube: FakeKube, lifetime: AgentLifetime): KubeClient {
  const subjectOf = (_: string, [resource, object]: readonly unknown[]) => {
    const { plural, namespace } = resource as Resource;
    const name = typeof object === "string" ? object : (object as KubeObject).metadata.name;
    return [plural, namespace, name].filter((part) => part !== undefined).join("/");
  };
  return lifetime.wrap<KubeClient>({ name: "kube", adapter: kube, verbs: kubeVerbs, subjectOf });
}
