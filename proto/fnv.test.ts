import { expect, test } from "bun:test";
import { fnv128a } from "./fnv.ts";

test("fnv128a returns the published FNV-1a test value", () => {
  expect(fnv128a("")).toBe("6c62272e07bb014262b821756295c58d");
  expect(fnv128a("a")).toBe("d228cb696f1a8caf78912b704e4a8964");
  expect(fnv128a("foobar")).toBe("343e1662793c64bf6f0d3597ba446f18");
});
