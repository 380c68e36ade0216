import { type ControlPlane, nodeUser } from "../../upstream/control-plane.ts";
import { type Gateway, startGateway } from "../../upstream/http2-gateway.ts";
import { type Relay, startRelay } from "../../upstream/tcp-relay.ts";
import type { Way } from "./node.ts";

/** A way to the API server that is as bad as a test wants it: its bytes pass the relay, its requests the gateway behind it. */
export interface BadWay extends Way {
  readonly relay: Relay;
  readonly gateway: Gateway;
}

export async function openBadWay({ server, ca, authority }: ControlPlane, nodeName: string): Promise<BadWay> {
  const gateway = await startGateway({
    target: server,
    ca,
    certificate: authority.issue({ commonName: "gateway", hosts: ["127.0.0.1"] }),
    identity: authority.issue(nodeUser(nodeName)),
  });
  const relay = await startRelay(gateway.port);
  return {
    server: `https://127.0.0.1:${relay.port}`,
    relay,
    gateway,
    async close() {
      await relay.close();
      await gateway.close();
    },
  };
}
