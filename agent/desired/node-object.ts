import type { Log } from "../../host/log/log.ts";
import type { KubeClient } from "../../kube/client.ts";
import type { KubeError } from "../../kube/error.ts";
import { nodes } from "../../kube/resource.ts";
import { decodeLenient } from "../../proto/kubernetes/decode/lenient-decode.ts";
import type { Node } from "../../proto/kubernetes/gen/types.ts";
import { describeFieldError } from "../../proto/kubernetes/validation/field-error.ts";
import { isCertainlyLater } from "../../proto/kubernetes/values/resource-version.ts";
import { createOutageLog } from "./outage-log.ts";

export interface NodeObjectOptions {
  readonly kube: Pick<KubeClient, "listAndWatch">;
  readonly nodeName: string;
  readonly log: Log;
  /** The object was created, deleted or changed. */
  readonly onChange: () => void;
  /** The API server responds again after an outage. */
  readonly onRecovered: () => void;
}

/**
 * The Node object of this machine, as the API server has it. A watch and the responses to our own requests keep it
 * current.
 */
export interface NodeObject {
  /** Undefined: there is none. `unknown`: it was not read yet. */
  latest(): Node | undefined | "unknown";
  /** Takes the object from a response, which may be newer than the watch. */
  observed(node: Node): void;
  /** The API server has responded that there is no such object. */
  notFound(): void;
  /** Runs the watch until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

/**
 * The watch and the responses are not ordered, and either may be late. Of two objects the one with the larger resource
 * version is newer, even if one replaced the other after a deletion.
 */
export function createNodeObject({ kube, nodeName, log, onChange, onRecovered }: NodeObjectOptions): NodeObject {
  let node: Node | undefined | "unknown" = "unknown";
  /** The newest resource version received. */
  let version = "";

  const outageLog = createOutageLog(log, { node: nodeName }, "the Node object can be decoded again");

  /** Decodes and applies a Node object. If it cannot be decoded, the last valid one stays. */
  function decodeAndApply(received: Node): void {
    const { object, problem } = decodeLenient("Node", received);
    if (problem === undefined) {
      outageLog.clear();
      apply(object, object.metadata.resourceVersion);
    } else outageLog.report(`ignoring a Node object that cannot be decoded: ${describeFieldError(problem)}`);
  }

  function apply(found: Node | undefined, at: string | undefined): void {
    const isDuplicate = found !== undefined && node !== undefined && node !== "unknown" && at === version;
    if (isDuplicate || isCertainlyLater(version, at)) return;
    version = at ?? version;
    const hasChanged = node !== found;
    node = found;
    if (hasChanged) onChange();
  }

  return {
    latest: () => node,
    observed: decodeAndApply,
    notFound() {
      // The object is gone, and the response has no version: no event received by now may restore it.
      node = undefined;
      onChange();
    },
    async run(signal) {
      const listener = {
        onReplaced([found]: readonly Node[], resourceVersion: string, isRolledBack: boolean) {
          // The server was restored from a backup: earlier versions do not count any more.
          if (isRolledBack) version = "";
          if (found === undefined) apply(found, resourceVersion);
          else decodeAndApply(found);
        },
        onChanged(kind: "added" | "modified" | "deleted", found: Node) {
          if (kind === "deleted") apply(undefined, found.metadata.resourceVersion);
          else decodeAndApply(found);
        },
        onOutage: (error: KubeError) => log.debug({ err: error }, "cannot watch the Node object"),
        onRecovered,
      };
      await kube.listAndWatch(nodes, { fieldSelector: `metadata.name=${nodeName}` }, listener, signal);
    },
  };
}
