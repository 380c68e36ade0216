import { expect, test } from "bun:test";
import { socketPathOf } from "./endpoint.ts";

for (const [endpoint, path] of [
  ["unix:///run/containerd/containerd.sock", "/run/containerd/containerd.sock"],
  ["/run/crio/crio.sock", "/run/crio/crio.sock"],
] as const)
  test(`${endpoint} is accepted`, () => {
    expect(socketPathOf(endpoint)).toBe(path);
  });

for (const endpoint of ["", "unix://", "unix://run/x.sock", "tcp://127.0.0.1:1", "npipe:////./pipe/x", "run/x.sock"])
  test(`${JSON.stringify(endpoint)} is refused, and the error names it`, () => {
    expect(() => socketPathOf(endpoint)).toThrow(JSON.stringify(endpoint));
  });

test("a path that is too long for a unix socket is refused", () => {
  expect(socketPathOf(`/${"x".repeat(106)}`)).toHaveLength(107);
  expect(() => socketPathOf(`/${"x".repeat(107)}`)).toThrow("107 bytes");
  expect(() => socketPathOf(`/${"é".repeat(60)}`)).toThrow("107 bytes");
});
