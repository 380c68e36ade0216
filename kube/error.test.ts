import { expect, test } from "bun:test";
import { errorOfStatus } from "./error.ts";

const cases: readonly [status: number, reason: string | undefined, code: string][] = [
  [400, "BadRequest", "INVALID"],
  [401, "Unauthorized", "UNAUTHORIZED"],
  [403, "Forbidden", "FORBIDDEN"],
  [404, "NotFound", "NOT_FOUND"],
  [405, "MethodNotAllowed", "INVALID"],
  [409, "Conflict", "CONFLICT"],
  [409, "AlreadyExists", "ALREADY_EXISTS"],
  [410, "Gone", "GONE"],
  [413, "RequestEntityTooLarge", "TOO_LARGE"],
  [422, "Invalid", "INVALID"],
  [429, "TooManyRequests", "TOO_MANY_REQUESTS"],
  [302, undefined, "SERVER"],
  [500, "InternalError", "SERVER"],
  [503, undefined, "SERVER"],
  // Answers of a proxy, which name no reason.
  [401, undefined, "UNAUTHORIZED"],
  [403, undefined, "FORBIDDEN"],
  [404, undefined, "SERVER"],
  [404, "", "SERVER"],
  [409, undefined, "SERVER"],
  [410, undefined, "SERVER"],
  [413, undefined, "SERVER"],
  [418, undefined, "SERVER"],
  [422, undefined, "SERVER"],
  [429, undefined, "TOO_MANY_REQUESTS"],
];
for (const [status, reason, code] of cases)
  test(`${status} ${reason} is ${code}`, () => {
    const error = errorOfStatus("GET /x", status, { reason, message: "why" });
    expect(error).toMatchObject({ code, status, reason, message: "GET /x: why" } as object);
  });

test("the server's message is given with the request, and alone", () => {
  const { message, serverMessage } = errorOfStatus("GET /x", 404, { message: 'pods "x" not found' });
  expect([message, serverMessage]).toEqual(['GET /x: pods "x" not found', 'pods "x" not found']);
});

test("without a message from the server the error names the HTTP status", () => {
  expect(errorOfStatus("GET /x", 502, { message: "" }).serverMessage).toBeUndefined();
  expect(errorOfStatus("GET /x", 502, {}).message).toBe("GET /x: the API server answered 502");
});

test("retryAfterMs comes from the header, else from the Status", () => {
  const status = { details: { retryAfterSeconds: 3 } };
  expect(errorOfStatus("GET /x", 429, status).retryAfterMs).toBe(3000);
  expect(errorOfStatus("GET /x", 429, status, 1000).retryAfterMs).toBe(1000);
  expect(errorOfStatus("GET /x", 500, { details: { retryAfterSeconds: 0 } }).retryAfterMs).toBeUndefined();
});

test("an overlong message is truncated", () => {
  expect(errorOfStatus("PATCH /x", 422, { message: "x".repeat(300_000) }).message.length).toBeLessThan(2100);
});
