import { expect, test } from "bun:test";
import { backoffMs } from "../../host/async/backoff.ts";
import { KubeError, type KubeErrorCode, type KubeErrorOptions } from "../error.ts";
import { backoffOptions, retryDelayMs } from "./retry.ts";

const still = () => 0;

interface Row {
  readonly when: string;
  readonly method: string;
  readonly code: KubeErrorCode;
  readonly options?: KubeErrorOptions;
  readonly attempts?: number;
  readonly delayMs: number | undefined;
}
const rows: readonly Row[] = [
  { when: "a GET got a 500", method: "GET", code: "SERVER", options: { status: 500 }, delayMs: 100 },
  { when: "a GET got a 502", method: "GET", code: "SERVER", options: { status: 502 }, delayMs: 100 },
  { when: "a GET got a 504", method: "GET", code: "SERVER", options: { status: 504 }, delayMs: 100 },
  { when: "a GET got a 501", method: "GET", code: "SERVER", options: { status: 501 }, delayMs: undefined },
  { when: "a GET got a 404", method: "GET", code: "NOT_FOUND", options: { status: 404 }, delayMs: undefined },
  { when: "a DELETE lost its connection", method: "DELETE", code: "CLOSED", delayMs: 100 },
  { when: "a PATCH lost its connection", method: "PATCH", code: "CLOSED", delayMs: undefined },
  { when: "a PUT got a 503", method: "PUT", code: "SERVER", options: { status: 503 }, delayMs: undefined },
  { when: "a POST got a 429", method: "POST", code: "TOO_MANY_REQUESTS", options: { status: 429 }, delayMs: 100 },
  {
    when: "a POST got a 429 with Retry-After",
    method: "POST",
    code: "TOO_MANY_REQUESTS",
    options: { status: 429, retryAfterMs: 7000 },
    delayMs: 7000,
  },
  { when: "a POST was not processed", method: "POST", code: "CLOSED", options: { isUnprocessed: true }, delayMs: 100 },
  { when: "it was the second attempt", method: "GET", code: "CLOSED", attempts: 2, delayMs: 200 },
  { when: "it was the fourth attempt", method: "GET", code: "CLOSED", attempts: 4, delayMs: 800 },
  { when: "it was the fifth attempt", method: "GET", code: "CLOSED", attempts: 5, delayMs: undefined },
  {
    when: "the TLS handshake failed",
    method: "GET",
    code: "TLS",
    options: { isUnprocessed: true },
    delayMs: undefined,
  },
  { when: "the caller cancelled", method: "GET", code: "CANCELLED", delayMs: undefined },
];
for (const { when, method, code, options, attempts = 1, delayMs } of rows)
  test(`when ${when}, it is ${delayMs === undefined ? "not sent again" : `sent again after ${delayMs} ms`}`, () => {
    expect(retryDelayMs({ method, error: new KubeError(code, "x", options), attempts }, still)).toBe(delayMs as number);
  });

test("jitter shortens a back-off, but never a Retry-After", () => {
  const error = new KubeError("TOO_MANY_REQUESTS", "x", { status: 429, retryAfterMs: 1000 });
  const delays = [0, 0.5, 0.99].map((chance) => retryDelayMs({ method: "GET", error, attempts: 1 }, () => chance) ?? 0);
  expect(Math.min(...delays)).toBe(1000);
  expect(Math.max(...delays)).toBeLessThan(1100);
  expect(
    [0, 0.5, 0.99].map((chance) =>
      backoffMs(
        backoffOptions(5000, () => chance),
        1,
      ),
    ),
  ).toEqual([100, 75, 50.5]);
  expect(backoffMs(backoffOptions(5000, still), 1000)).toBe(5000);
});
