import { expect, test } from "bun:test";
import type { PodCertificateRequest } from "../../../proto/kubernetes/certificates.ts";
import { formatPemBlock } from "../../../proto/pem.ts";
import { certificateRefreshAt, lateEvents, outcomeOf, refusalText, requestAbandonedAt } from "./pod-certificates.ts";

const pem = formatPemBlock("CERTIFICATE", new TextEncoder().encode("one"));
const condition = (type: string) => ({ type, reason: "Why", message: 'so "it" is' });
const never = Number.POSITIVE_INFINITY;

const outcomes: readonly [sentence: string, status: PodCertificateRequest["status"], outcome: unknown][] = [
  ["without a status", undefined, undefined],
  ["with conditions that only a newer server knows", { conditions: [condition("Seen")] }, undefined],
  ["denied", { conditions: [condition("Denied")] }, { kind: "denied", reason: "Why", message: 'so "it" is' }],
  ["failed", { conditions: [condition("Failed")] }, { kind: "failed", reason: "Why", message: 'so "it" is' }],
  [
    "issued: comments and headers are left out",
    {
      conditions: [condition("Seen"), condition("Issued")],
      certificateChain: `# one\n${pem}# two\n-----BEGIN X-----\na: b\n\nb25l\n-----END X-----\n`,
      beginRefreshAt: "1970-01-01T00:00:10Z",
      notAfter: "1970-01-01T00:00:20Z",
    },
    { kind: "issued", certificateChain: pem + pem, beginRefreshAt: 10_000, notAfter: 20_000 },
  ],
  [
    "issued without times that can be read",
    { conditions: [condition("Issued")], certificateChain: pem, notAfter: "tomorrow" },
    { kind: "issued", certificateChain: pem, beginRefreshAt: never, notAfter: never },
  ],
];
for (const [sentence, status, outcome] of outcomes)
  test(`a request ${sentence}`, () => {
    expect(outcomeOf({ ...(status && { status }) })).toEqual(outcome as ReturnType<typeof outcomeOf>);
  });

test("a refusal is reported in the kubelet's words, quoted as Go does", () => {
  expect(refusalText({ kind: "denied", reason: "Why", message: 'so "it" is' })).toBe(
    'PodCertificateRequest was permanently denied: reason="Why" message="so \\"it\\" is"',
  );
});

const minute = 60_000;
const times: readonly [sentence: string, at: number, expected: number][] = [
  ["at the signer's time", certificateRefreshAt({ beginRefreshAt: 60 * minute }, 0, 0), 60 * minute],
  ["up to five minutes later", certificateRefreshAt({ beginRefreshAt: 60 * minute }, 0, 0.5), 62.5 * minute],
  ["not within a minute of its issue", certificateRefreshAt({ beginRefreshAt: 0 }, 60 * minute, 0), 61 * minute],
  ["never without a time", certificateRefreshAt({ beginRefreshAt: never }, 0, 0.5), never],
];
for (const [sentence, at, expected] of times)
  test(`a certificate is requested again ${sentence}`, () => {
    expect(at).toBe(expected);
  });

test("a request that no watch shows counts as deleted after ten to fifteen minutes", () => {
  expect([requestAbandonedAt(0, 0), requestAbandonedAt(0, 0.5)]).toEqual([10 * minute, 12.5 * minute]);
});

test("a certificate is overdue ten minutes after its refresh was due, and expires", () => {
  expect(lateEvents(60 * minute, 90 * minute).map(([at, { reason }]) => [at / minute, reason])).toEqual([
    [70, "CertificateOverdueForRefresh"],
    [90, "CertificateExpired"],
  ]);
});
