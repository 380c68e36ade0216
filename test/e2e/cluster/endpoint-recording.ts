import type { KubeObject, Resource } from "../../../kube/resource.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";

/** The fields of an EndpointSlice that the tests read. */
interface EndpointSlice extends KubeObject {
  readonly endpoints?: readonly {
    readonly conditions?: { readonly ready?: boolean };
    readonly targetRef?: { readonly name?: string };
  }[];
}

const endpointSlices: Resource<EndpointSlice> = {
  group: "discovery.k8s.io",
  version: "v1",
  plural: "endpointslices",
  namespace: "default",
};

export interface EndpointRecording {
  /** The pods that are ready endpoints of the Service now, sorted by name. */
  ready(): readonly string[];
  /** One sentence for each pod that has left the ready endpoints, so far. */
  losses(): readonly string[];
  stop(): Promise<void>;
}

/**
 * Watches the EndpointSlice of a Service, from which kube-proxy takes where to send requests. The Service has so few pods
 * that one slice contains them all.
 */
export async function recordEndpoints(plane: ControlPlane, service: string): Promise<EndpointRecording> {
  const kube = createAdminClient(plane, "endpoint-recorder");
  const losses: string[] = [];
  let ready: readonly string[] = [];
  const record = ({ metadata, endpoints = [] }: EndpointSlice) => {
    if (metadata.labels?.["kubernetes.io/service-name"] !== service) return;
    const now = endpoints
      .filter(({ conditions }) => conditions?.ready === true)
      .map((each) => each.targetRef?.name ?? "");
    for (const name of ready) if (!now.includes(name)) losses.push(`${name} is no ready endpoint any more`);
    ready = now.toSorted();
  };
  const stopping = new AbortController();
  const reflecting = kube.listAndWatch(
    endpointSlices,
    {},
    {
      onReplaced: (all) => all.forEach(record),
      onChanged: (kind, slice) => record(kind === "deleted" ? { metadata: slice.metadata } : slice),
      onOutage: () => undefined,
      onRecovered: () => undefined,
    },
    stopping.signal,
  );
  return {
    ready: () => ready,
    losses: () => losses,
    async stop() {
      stopping.abort();
      await reflecting;
      kube.close();
    },
  };
}
