import { isIP } from "node:net";
import { parseIp } from "../../host/ip-address.ts";
import { NetlinkError } from "../../host/netlink/error.ts";
import { readLink } from "../../host/netlink/links.ts";
import { NETLINK_ROUTE, type Netlink } from "../../host/netlink/netlink.ts";
import { addRoute, listRoutes, removeRoute } from "../../host/netlink/routes.ts";
import type { Attachment } from "../chain.ts";
import type { NetworkConf } from "../conf.ts";
import { CniError, cniCodes } from "../error.ts";
import { type CniResult, formatResult } from "../result.ts";
import type { ResultCache } from "../result-cache.ts";

/** The interface of a pod that gets its default routes, and their gateways: at most one of each family. */
export interface DefaultRoute {
  readonly ifName: string;
  readonly gateways: readonly string[];
}

/** Replaces all default routes of a network namespace. Throws `CniError` with code 5 for what the kernel refuses. */
export type SetDefaultRoute = (netns: string, route: DefaultRoute) => void;

/** Uses the kernel's routes. */
export function createSetDefaultRoute(netlink: Netlink): SetDefaultRoute {
  return (netns, { ifName, gateways }) => {
    const namespace = netlink.openNamespace(netns);
    try {
      const socket = netlink.runIn(namespace, () => netlink.openSocket(NETLINK_ROUTE));
      try {
        const link = readLink(socket, ifName);
        const routes = [...listRoutes(socket, 4), ...listRoutes(socket, 16)];
        // One without a link is an unreachable route, which a default route comes before.
        for (const route of routes.filter(({ to, link: owner }) => to.bits === 0 && owner !== 0))
          removeRoute(socket, route);
        for (const gateway of gateways.flatMap((text) => parseIp(text) ?? []))
          addRoute(socket, link, { to: { bytes: new Uint8Array(gateway.length), bits: 0 }, gateway });
      } finally {
        socket.close();
      }
    } catch (error) {
      if (!(error instanceof NetlinkError)) throw error;
      throw new CniError(cniCodes.ioFailure, `default-route: ${error.message}`, { cause: error });
    } finally {
      namespace.close();
    }
  };
}

/** One attachment of a pod, whose result may change when another one gets the default route. */
export interface PodAttachment {
  /** As the status names it. */
  readonly name: string;
  readonly conf: NetworkConf;
  readonly ifName: string;
  readonly result: CniResult;
  /** The gateways that the pod asks for; without any those of the result. Undefined if another attachment has the default route. */
  readonly defaultRoute: readonly string[] | undefined;
}

export interface MoveDefaultRouteDeps {
  readonly setDefaultRoute: SetDefaultRoute;
  readonly cache: Pick<ResultCache, "read" | "write">;
}

/**
 * Gives the default route to the attachment that asks for it, and takes it from all others; CHECK and DEL get results that say
 * so. Resolves with the attachments after it. NPWG standard, section 4.1.2.1.9. Rejects with `CniError`, and with `FilesError` of the cache.
 */
export async function moveDefaultRoute(
  { setDefaultRoute, cache }: MoveDefaultRouteDeps,
  { netns, containerId }: Attachment,
  attached: readonly PodAttachment[],
): Promise<readonly PodAttachment[]> {
  const owner = attached.find(({ defaultRoute }) => defaultRoute !== undefined);
  if (owner === undefined) return attached;
  const gateways = gatewaysOf(owner);
  setDefaultRoute(netns, { ifName: owner.ifName, gateways });
  const moved = attached.map((each) => ({ ...each, result: withDefaultRoute(each, each === owner ? gateways : []) }));
  for (const { conf, ifName, result } of moved) {
    const entry = await cache.read({ network: conf.name, containerId, ifName });
    if (entry !== undefined) await cache.write({ ...entry, result: formatResult(result, conf.cniVersion) });
  }
  return moved;
}

function gatewaysOf({ name, result, defaultRoute = [] }: PodAttachment): readonly string[] {
  if (defaultRoute.length > 0) return defaultRoute;
  const own = result.ips.flatMap(({ gateway }) => gateway ?? []);
  const gateways = own.filter((text, index) => own.findIndex((other) => isIP(other) === isIP(text)) === index);
  if (gateways.length > 0) return gateways;
  const message = `default-route: the result of ${name} has no gateway, and the pod names none`;
  throw new CniError(cniCodes.invalidNetworkConf, message);
}

function withDefaultRoute({ result }: PodAttachment, gateways: readonly string[]): CniResult {
  const others = result.routes.filter(({ dst }) => !dst.endsWith("/0"));
  const own = gateways.map((gw) => ({ dst: isIP(gw) === 4 ? "0.0.0.0/0" : "::/0", gw }));
  return { ...result, routes: [...others, ...own] };
}
