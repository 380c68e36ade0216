import { expect, test } from "bun:test";
import type { ClusterTrustBundle } from "../../../proto/kubernetes/certificates.ts";
import type { ClusterTrustBundleProjection } from "../../../proto/kubernetes/gen/types.ts";
import { formatPemBlock, parsePemBlocks } from "../../../proto/pem.ts";
import { trustAnchorsOf } from "./trust-anchors.ts";

const certificate = (text: string) => formatPemBlock("CERTIFICATE", new TextEncoder().encode(text));
const bundle = (
  name: string,
  certificates: readonly string[],
  { signerName, labels }: { signerName?: string; labels?: Record<string, string> } = {},
): ClusterTrustBundle => ({
  metadata: { name, ...(labels && { labels }) },
  spec: { trustBundle: certificates.map(certificate).join("# a comment\n"), ...(signerName && { signerName }) },
});
const bundles = [
  bundle("ca", ["two", "one", "two"]),
  bundle("x:s:1", ["three", "one"], { signerName: "x/s", labels: { version: "live", tier: "1" } }),
  bundle("x:s:2", ["one", "four"], { signerName: "x/s", labels: { version: "old" } }),
  bundle("y:s:1", ["five"], { signerName: "y/s", labels: { version: "live" } }),
];

/** The certificates, or why there are none. */
function anchorsOf(source: Omit<ClusterTrustBundleProjection, "path">): readonly string[] | string {
  const anchors = trustAnchorsOf(bundles, { path: "ca.crt", ...source });
  if ("failure" in anchors) return anchors.failure;
  return parsePemBlocks(anchors.pem).map((bytes) => new TextDecoder().decode(bytes));
}
const expression = (operator: "In" | "NotIn" | "Exists" | "DoesNotExist", key: string, ...values: string[]) => ({
  signerName: "x/s",
  labelSelector: { matchExpressions: [{ key, operator, ...(values.length > 0 && { values }) }] },
});
const notSelected = "combination of signerName and labelSelector matched zero ClusterTrustBundles";

const rows: readonly [
  sentence: string,
  source: Omit<ClusterTrustBundleProjection, "path">,
  shown: readonly string[] | string,
][] = [
  ["the bundle of a name, each certificate once", { name: "ca" }, ["one", "two"]],
  [
    "no bundle of the name",
    { name: "none" },
    'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "none" not found',
  ],
  ["no bundle of the name, which is optional", { name: "none", optional: true }, []],
  ["all bundles of a signer", { signerName: "x/s", labelSelector: {} }, ["four", "one", "three"]],
  ["a signer without a selector", { signerName: "x/s" }, notSelected],
  ["a signer without a bundle, which is optional", { signerName: "z/s", labelSelector: {}, optional: true }, []],
  ["a signer without a bundle", { signerName: "z/s", labelSelector: {} }, notSelected],
  ["labels", { signerName: "x/s", labelSelector: { matchLabels: { version: "live" } } }, ["one", "three"]],
  ["labels that no bundle has", { signerName: "x/s", labelSelector: { matchLabels: { toString: "x" } } }, notSelected],
  ["one of some values", expression("In", "version", "old", "new"), ["four", "one"]],
  ["none of some values", expression("NotIn", "tier", "1"), ["four", "one"]],
  ["a label whatever its value", expression("Exists", "tier"), ["one", "three"]],
  ["no label", expression("DoesNotExist", "tier"), ["four", "one"]],
  ["neither name nor signer", {}, "ClusterTrustBundle projection requires either name or signerName to be set"],
];
for (const [sentence, source, shown] of rows)
  test(`a source shows ${sentence}`, () => {
    const anchors = anchorsOf(source);
    expect(typeof anchors === "string" ? anchors : anchors.toSorted()).toEqual(
      typeof shown === "string" ? shown : [...shown],
    );
  });

test("the order depends on the certificates alone", () => {
  const source = { path: "ca.crt", signerName: "x/s", labelSelector: {} };
  expect(trustAnchorsOf(bundles.toReversed(), source)).toEqual(trustAnchorsOf(bundles, source));
});
