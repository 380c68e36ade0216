import { createClock } from "../../host/clock.ts";
import { createKube, type Kube } from "../../kube/client.ts";
import { createConnection } from "../../kube/transport/connection.ts";
import { fixedCluster } from "../fakes/cluster-endpoint.ts";
import { FakeLog } from "../fakes/log.ts";
import type { ControlPlane } from "./control-plane.ts";

/** Our own client of a control plane, which may do everything there; `name` is who it says it is. */
export function administrator(plane: ControlPlane, name: string): Kube & { close(): void } {
  const { kube, connection } = administration(plane, name);
  return { ...kube, close: () => connection.close() };
}

/** The same in its parts. */
export function administration(plane: ControlPlane, name: string) {
  const certificate = plane.authority.issue({ commonName: name, organizations: ["system:masters"] });
  const [clock, log, random] = [createClock(), new FakeLog(), () => 0];
  const connection = createConnection({
    cluster: fixedCluster({
      server: new URL(plane.server),
      certificateAuthority: plane.ca,
      tlsServerName: undefined,
      insecureSkipTlsVerify: false,
      credentials: { identity: async () => ({ certificate }), refused: () => undefined },
    }),
    userAgent: `berth-${name}`,
    rates: { main: undefined, events: undefined },
    clock,
    random,
    log,
  });
  return { kube: createKube({ connection, clock, log, random }), connection, clock };
}
