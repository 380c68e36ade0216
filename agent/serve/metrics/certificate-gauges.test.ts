import { expect, test } from "bun:test";
import { createSelfSignedCertificate } from "../../../host/self-signed-certificate.ts";
import { setCertificateGauges } from "./certificate-gauges.ts";
import { createKubeletMetrics } from "./kubelet-metrics.ts";

const validTo = Date.parse("2026-06-01T00:00:00Z");
const { cert } = await createSelfSignedCertificate({
  commonName: "node1",
  hosts: ["node1"],
  validFrom: validTo - 86_400_000,
  validTo,
});

test.each([
  ["a valid one", cert, validTo - 90_500, 90],
  ["an expired one", cert, validTo + 60_000, -60],
  ["none", undefined, validTo, Number.POSITIVE_INFINITY],
])("the seconds that a certificate is valid: %s", (_sentence, pem, now, seconds) => {
  const metrics = createKubeletMetrics();
  const secondsIn = (name: string) =>
    metrics.kubelet
      .families()
      .find((family) => family.name === name)
      ?.samples.map(({ value }) => value);
  setCertificateGauges(metrics, pem, cert, now);
  expect(secondsIn("kubelet_certificate_manager_client_ttl_seconds")).toEqual([seconds]);
  setCertificateGauges(metrics, undefined, pem, now);
  expect(secondsIn("kubelet_certificate_manager_server_ttl_seconds")).toEqual([seconds]);
});
