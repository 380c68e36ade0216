import { expect, test } from "bun:test";
import { acceptsType } from "./accept.ts";

test.each([
  [undefined, true],
  ["", true],
  ["*/*", true],
  ["application/json", true],
  ["application/json;q=0.9", true],
  ["text/html, application/json ;q=0.1", true],
  ["text/html,*/*;q=0.8", true],
  ["application/vnd.kubernetes.protobuf,application/json", true],
  ["text/plain", false],
  ["application/*", false],
  ["application/json2", false],
  ["application/vnd.kubernetes.protobuf, text/plain", false],
])("a client with the header Accept %p takes application/json: %p", (accept, expected) => {
  expect(acceptsType(accept, "application/json")).toBe(expected);
});
