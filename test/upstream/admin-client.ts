import { createClock } from "../../host/clock.ts";
import { createKubeClient, type KubeClient } from "../../kube/client.ts";
import { createKubeConnection } from "../../kube/transport/connection.ts";
import { fixedEndpoint } from "../fakes/cluster-endpoint.ts";
import { FakeLog } from "../fakes/log.ts";
import type { ControlPlane } from "./control-plane.ts";

/** Berth's API client as a cluster administrator; `name` is the user name in its certificate. */
export function createAdminClient(plane: ControlPlane, name: string): KubeClient & { close(): void } {
  const { kube, connection } = createAdminConnection(plane, name);
  return { ...kube, close: () => connection.close() };
}

/** The same client with access to its connection and clock. */
export function createAdminConnection(plane: ControlPlane, name: string) {
  const certificate = plane.authority.issue({ commonName: name, organizations: ["system:masters"] });
  const [clock, log, random] = [createClock(), new FakeLog(), () => 0];
  const connection = createKubeConnection({
    cluster: fixedEndpoint({
      server: new URL(plane.server),
      certificateAuthority: plane.ca,
      tlsServerName: undefined,
      insecureSkipTlsVerify: false,
      credentials: { identity: async () => ({ certificate }), markRejected: () => undefined },
    }),
    userAgent: `berth-${name}`,
    rateLimits: { main: undefined, events: undefined },
    clock,
    random,
    log,
  });
  return { kube: createKubeClient({ connection, clock, log, random }), connection, clock };
}
