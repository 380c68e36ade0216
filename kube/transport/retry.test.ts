import { expect, test } from "bun:test";
import { KubeError, type KubeErrorCode, type KubeErrorOptions } from "../error.ts";
import { backOffMs, retryDelayMs } from "./retry.ts";

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
  { when: "a GET met a 500", method: "GET", code: "SERVER", options: { status: 500 }, delayMs: 100 },
  { when: "a GET met a 502", method: "GET", code: "SERVER", options: { status: 502 }, delayMs: 100 },
  { when: "a GET met a 504", method: "GET", code: "SERVER", options: { status: 504 }, delayMs: 100 },
  { when: "a GET met a 501", method: "GET", code: "SERVER", options: { status: 501 }, delayMs: undefined },
  { when: "a GET met a 404", method: "GET", code: "NOT_FOUND", options: { status: 404 }, delayMs: undefined },
  { when: "a DELETE lost its connection", method: "DELETE", code: "CLOSED", delayMs: 100 },
  { when: "a PATCH lost its connection", method: "PATCH", code: "CLOSED", delayMs: undefined },
  { when: "a PUT met a 503", method: "PUT", code: "SERVER", options: { status: 503 }, delayMs: undefined },
  { when: "a POST was turned away", method: "POST", code: "TOO_MANY_REQUESTS", options: { status: 429 }, delayMs: 100 },
  {
    when: "a POST was turned away for a while",
    method: "POST",
    code: "TOO_MANY_REQUESTS",
    options: { status: 429, retryAfterMs: 7000 },
    delayMs: 7000,
  },
  { when: "a POST was passed over", method: "POST", code: "CLOSED", options: { isUnprocessed: true }, delayMs: 100 },
  { when: "it was the second time", method: "GET", code: "CLOSED", attempts: 2, delayMs: 200 },
  { when: "it was the fourth time", method: "GET", code: "CLOSED", attempts: 4, delayMs: 800 },
  { when: "it was the fifth time", method: "GET", code: "CLOSED", attempts: 5, delayMs: undefined },
  { when: "nobody trusts us", method: "GET", code: "TLS", options: { isUnprocessed: true }, delayMs: undefined },
  { when: "nobody wants it any more", method: "GET", code: "CANCELLED", delayMs: undefined },
];
for (const { when, method, code, options, attempts = 1, delayMs } of rows)
  test(`when ${when}, it is sent again ${delayMs === undefined ? "never" : `after ${delayMs} ms`}`, () => {
    expect(retryDelayMs({ method, error: new KubeError(code, "x", options), attempts }, still)).toBe(delayMs as number);
  });

test("chance makes a wait shorter, and never one that the server has asked for", () => {
  const error = new KubeError("TOO_MANY_REQUESTS", "x", { status: 429, retryAfterMs: 1000 });
  const delays = [0, 0.5, 0.99].map((chance) => retryDelayMs({ method: "GET", error, attempts: 1 }, () => chance) ?? 0);
  expect(Math.min(...delays)).toBe(1000);
  expect(Math.max(...delays)).toBeLessThan(1100);
  expect([0, 0.5, 0.99].map((chance) => backOffMs(1, 5000, () => chance))).toEqual([100, 75, 50.5]);
  expect(backOffMs(1000, 5000, still)).toBe(5000);
});
