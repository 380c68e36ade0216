import { expect, test } from "bun:test";
import { containerHash } from "./container-hash.ts";

const rows = [
  { name: "a", image: "busybox", hash: "5264866e", why: "printed by the kubelet 1.36.3" },
  { name: "web", image: "reg.io/x/y:1.2@sha256:ab", hash: "616c2c27", why: "printed by the kubelet 1.36.3" },
];
for (const { hash, why, ...container } of rows)
  test(`container ${container.name} of image ${container.image} has the hash ${hash}, as ${why}`, () => {
    expect(containerHash(container)).toBe(hash);
  });

test("the hash depends on image and name", () => {
  const hashes = [
    containerHash({ name: "a", image: "b" }),
    containerHash({ name: "a", image: "c" }),
    containerHash({ name: "b", image: "b" }),
    containerHash({ name: "a" }),
  ];
  expect(new Set(hashes).size).toBe(4);
});
