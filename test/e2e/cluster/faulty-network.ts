import { type ControlPlane, nodeUser } from "../../upstream/control-plane.ts";
import { type Http2Gateway, startHttp2Gateway } from "../../upstream/http2-gateway.ts";
import { type Relay, startRelay } from "../../upstream/tcp-relay.ts";
import type { NetworkPath } from "./node.ts";

/**
 * A faulty network to the API server: a relay that can break the byte stream, and behind it a gateway that can fake
 * responses.
 */
export interface FaultyNetwork extends NetworkPath {
  readonly relay: Relay;
  readonly gateway: Http2Gateway;
}

export async function openFaultyNetwork(
  { server, ca, authority }: ControlPlane,
  nodeName: string,
): Promise<FaultyNetwork> {
  const gateway = await startHttp2Gateway({
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
