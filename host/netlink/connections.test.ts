import { expect, test } from "bun:test";
import { type Attribute, be16, encodeAttributes, type NetlinkMessage, u8, u32 } from "./codec.ts";
import { endUdpConnections } from "./connections.ts";
import { NetlinkError } from "./error.ts";
import type { NetlinkRequest, NetlinkSocket } from "./socket.ts";

const TUPLE = 1;
const PROTOCOL = 2;
const ID = 12;
const [TCP, UDP] = [6, 17];

/** A tracked connection in the answer of a dump: struct nfgenmsg, then the tuple as the client has addressed it, and the id. */
function connection(id: number, protocol: number, port: number): NetlinkMessage {
  const parts: readonly Attribute[] = [
    [1, u8(protocol)],
    [3, be16(port)],
  ];
  const attributes = encodeAttributes([
    [TUPLE, [[PROTOCOL, parts]]],
    [ID, u32(id)],
  ]);
  return { type: 0x100, flags: 0, sequence: 1, payload: Uint8Array.of(2, 0, 0, 0, ...attributes) };
}

/** A socket whose dump has these connections, or is refused; `ended` has the ids of those that were deleted. */
function createConnections(dumped: readonly NetlinkMessage[] | NetlinkError, gone: readonly number[] = []) {
  const ended: number[] = [];
  const socket: Pick<NetlinkSocket, "dump" | "request"> = {
    dump() {
      if (dumped instanceof NetlinkError) throw dumped;
      return dumped;
    },
    request({ attributes }: NetlinkRequest) {
      const id = attributes.find(([type]) => type === ID)?.[1];
      const number = id instanceof Uint8Array ? (id[0] ?? 0) : 0;
      if (gone.includes(number)) throw new NetlinkError("ENOENT", "end the connection", "");
      ended.push(number);
      return [];
    },
  };
  return { socket, ended };
}

test("ends the connections by UDP to the port alone, though a kernel without the filter shows all", () => {
  const { socket, ended } = createConnections([
    connection(1, UDP, 5353),
    connection(2, TCP, 5353),
    connection(3, UDP, 53),
    connection(4, UDP, 5353),
  ]);
  endUdpConnections(socket, 4, 5353);
  expect(ended).toEqual([1, 4]);
});

test("ends the others when one has ended meanwhile", () => {
  const { socket, ended } = createConnections([connection(1, UDP, 53), connection(2, UDP, 53)], [1]);
  endUdpConnections(socket, 4, 53);
  expect(ended).toEqual([2]);
});

for (const code of ["EINVAL", "EOPNOTSUPP"])
  test(`ends none where a kernel without nf_conntrack_netlink answers ${code}`, () => {
    const { socket, ended } = createConnections(new NetlinkError(code, "end the connections", ""));
    endUdpConnections(socket, 6, 53);
    expect(ended).toEqual([]);
  });

test("throws any other refusal", () => {
  const { socket } = createConnections(new NetlinkError("EPERM", "end the connections", ""));
  expect(() => endUdpConnections(socket, 4, 53)).toThrow("EPERM");
});
