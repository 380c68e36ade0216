import { expect, test } from "bun:test";
import { deadSockets } from "./shim-sockets.ts";

const listed = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 36283 /run/containerd/s/alive
0000000000000000: 00000003 00000000 00000000 0001 03 36290
`;

test("a socket is dead if the kernel does not list it and it was created within the given times", () => {
  const files = [
    { path: "/run/containerd/s/alive", createdAt: 150 },
    { path: "/run/containerd/s/dead", createdAt: 150 },
    { path: "/run/containerd/s/another's", createdAt: 99 },
    { path: "/run/containerd/s/new", createdAt: 201 },
  ];
  expect(deadSockets(files, listed, { since: 100, until: 200 })).toEqual(["/run/containerd/s/dead"]);
});
