import { warning } from "../events/pod-event.ts";
import { type PodResource, resourceRecordOf, withoutResource, withResource } from "../pod/resources.ts";
import type { ActionRecord, ActionRecords } from "./action-record.ts";

/** What the agent does to the resources of a pod. Each resource has its own record in `pod/resources.ts`. */
export type ResourceAction = MakeResource | RemoveResource;

interface MakeResource {
  readonly kind: "makeResource";
  readonly resource: PodResource;
}

interface RemoveResource {
  readonly kind: "removeResource";
  readonly resource: PodResource;
  readonly why: string;
}

const makeResource: ActionRecord<MakeResource> = {
  describe: ({ resource }) => resourceRecordOf(resource).describeMake(resource),
  failureKey: ({ resource }) => ({ of: "resource", resource }),
  actionClass: "start",
  failure: ({ resource }) => resourceRecordOf(resource).failure,
  timingStep: ({ resource: { of }, resource }) =>
    resourceRecordOf(resource).isTimed ? { what: "volumes", isFirst: of === "podDirs" } : undefined,
  eventsAtFailure: ({ resource }, { message }) => [warning(resourceRecordOf(resource).failureEvent, message)],
  memoryWhenSucceeded: (memory, { resource }) => ({
    ...memory,
    madeResources: withResource(memory.madeResources, resource),
  }),
};

const removeResource: ActionRecord<RemoveResource> = {
  describe: ({ resource, why }) => `${resourceRecordOf(resource).describeRemove(resource)}: ${why}`,
  failureKey: ({ resource }) => ({ of: "endOfResource", resource }),
  actionClass: "end",
  failure: () => ({ reason: "FailedCleanup", runtimeText: "rpc error" }),
  memoryWhenSucceeded: (memory, { resource }) => ({
    ...memory,
    madeResources: withoutResource(memory.madeResources, resource),
  }),
};

export const resourceActions: ActionRecords<ResourceAction> = { makeResource, removeResource };
