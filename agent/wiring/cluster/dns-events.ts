import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { PodEvent } from "../../decide/events/pod-event.ts";
import { nodeReference } from "../../decide/node/node-report.ts";
import { recordOf } from "../../decide/pod/action.ts";
import type { ActionStarted } from "../../decide/pod/action-call.ts";
import type { EventRecorder } from "../../report/events/recorder.ts";
import { type DnsWarning, dnsWarnings } from "../../translate/network/dns.ts";
import type { NodeFacts } from "../../translate/node-facts.ts";

interface DnsEventsOptions {
  readonly recorder: EventRecorder;
  readonly nodeName: string;
  readonly podOf: (uid: PodUid) => Pod | undefined;
  readonly facts: () => NodeFacts;
}

/** Records DNS problems that the node causes as events of the node, and returns the events for the pod. */
export function createDnsEvents({ recorder, nodeName, podOf, facts }: DnsEventsOptions) {
  const warningsOf = (pod: Pod): readonly DnsWarning[] => {
    try {
      return dnsWarnings(pod, facts());
    } catch {
      // The node facts cannot be read: creating the sandbox fails for the same reason, and reports it.
      return [];
    }
  };
  return ({ uid, action }: ActionStarted): readonly PodEvent[] => {
    const pod = recordOf(action).uses?.includes("dns") ? podOf(uid) : undefined;
    const warnings = pod === undefined ? [] : warningsOf(pod);
    for (const { reason, nodeMessage } of warnings)
      if (nodeMessage !== undefined)
        recorder.record(nodeReference({ nodeName }), { type: "Warning", reason, message: nodeMessage });
    return warnings.map(({ reason, message }) => ({ type: "Warning", reason, message }));
  };
}
