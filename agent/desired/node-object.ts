import type { Log } from "../../host/log.ts";
import type { Kube } from "../../kube/client.ts";
import type { KubeError } from "../../kube/error.ts";
import { nodes } from "../../kube/resource.ts";
import { readTold } from "../../proto/kubernetes/decode/lenient-decode.ts";
import type { Node } from "../../proto/kubernetes/gen/types.ts";
import { isCertainlyLater } from "../../proto/kubernetes/resource-version.ts";
import { describeFieldError } from "../../proto/kubernetes/validation/field-error.ts";
import { createTrouble } from "./outage-log.ts";

export interface OwnNodeParts {
  readonly kube: Pick<Kube, "follow">;
  readonly nodeName: string;
  readonly log: Log;
  /** The object came, went or is another. */
  readonly changed: () => void;
  /** The API server answers again after an outage. */
  readonly back: () => void;
}

/** The Node object of this machine, as the API server has it. */
export interface OwnNode {
  /** Undefined: there is none. `unknown`: the API server has not been heard yet. */
  latest(): Node | undefined | "unknown";
  /** The API server has answered with this, which may be ahead of what is followed. */
  heard(node: Node): void;
  /** The API server has answered that there is none. */
  missed(): void;
  /** Follows the object until the signal aborts; never rejects. */
  follow(signal: AbortSignal): Promise<void>;
}

/**
 * What is followed and what is answered come by two ways, and either may be late: of two objects the one with the larger resource
 * version is the later, an object that came in the place of one that was deleted included.
 */
export function createOwnNode({ kube, nodeName, log, changed, back }: OwnNodeParts): OwnNode {
  let node: Node | undefined | "unknown" = "unknown";
  /** The latest version at which anything was heard. */
  let version = "";

  const trouble = createTrouble(log, { node: nodeName }, "the node's own object can be read again");

  /** What is no Node as we know them changes nothing: the one that is known stays as it was. */
  function settleAs(told: Node): void {
    const { object, problem } = readTold("Node", told);
    if (problem === undefined) {
      trouble.over();
      settle(object, object.metadata.resourceVersion);
    } else trouble.met(`the API server's Node cannot be read, and is left aside: ${describeFieldError(problem)}`);
  }

  function settle(found: Node | undefined, at: string | undefined): void {
    const isEcho = found !== undefined && node !== undefined && node !== "unknown" && at === version;
    if (isEcho || isCertainlyLater(version, at)) return;
    version = at ?? version;
    const isOther = node !== found;
    node = found;
    if (isOther) changed();
  }

  return {
    latest: () => node,
    heard: settleAs,
    missed() {
      // What was seen last is gone, and the answer carries no version: nothing that is followed by now may bring it back.
      node = undefined;
      changed();
    },
    async follow(signal) {
      const listener = {
        replaced([found]: readonly Node[], resourceVersion: string, hasGoneBack: boolean) {
          // What was heard before is of a past that the server does not have any more.
          if (hasGoneBack) version = "";
          if (found === undefined) settle(found, resourceVersion);
          else settleAs(found);
        },
        changed(kind: "added" | "modified" | "deleted", found: Node) {
          if (kind === "deleted") settle(undefined, found.metadata.resourceVersion);
          else settleAs(found);
        },
        away: (error: KubeError) => log.debug({ err: error }, "the node's own object is not followed"),
        back,
      };
      await kube.follow(nodes, { fieldSelector: `metadata.name=${nodeName}` }, listener, signal);
    },
  };
}
