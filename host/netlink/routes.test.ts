import { expect, test } from "bun:test";
import { encodeAttributes, type NetlinkMessage, u32 } from "./codec.ts";
import { listRoutes } from "./routes.ts";

const [IPV4, IPV6, MAIN] = [2, 10, 254];

/** A default route over the link 3, in the answer of a dump. */
const defaultRoute = (family: number, gateway: readonly number[]): NetlinkMessage => ({
  ...{ type: 24, flags: 0, sequence: 1 },
  payload: Uint8Array.of(
    ...[family, 0, 0, 0, MAIN, 3, 0, 1, 0, 0, 0, 0],
    ...encodeAttributes([
      [5, Uint8Array.from(gateway)],
      [4, u32(3)],
    ]),
  ),
});

test("lists no IPv4 route as one of IPv6, though a kernel without IPv6 answers with those", () => {
  const socket = { dump: () => [defaultRoute(IPV4, [10, 88, 0, 1])] };
  expect(listRoutes(socket, 16)).toEqual([]);
  expect(listRoutes(socket, 4)).toEqual([
    { to: { bytes: new Uint8Array(4), bits: 0 }, gateway: Uint8Array.of(10, 88, 0, 1), link: 3 },
  ]);
});

test("lists a route of the asked family", () => {
  const gateway = [0xfd, ...new Array<number>(14).fill(0), 1];
  const socket = { dump: () => [defaultRoute(IPV6, gateway)] };
  expect(listRoutes(socket, 16).map((route) => route.gateway)).toEqual([Uint8Array.from(gateway)]);
});
