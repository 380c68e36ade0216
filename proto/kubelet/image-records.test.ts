import { expect, test } from "bun:test";
import { decodePulledRecord, decodePullIntent, encodePulledRecord, encodePullIntent } from "./image-records.ts";

/** Recorded from the kubelet 1.36. */
const golden =
  '{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"1970-01-01T00:00:00Z","imageRef":"sha256:k","credentialMapping":{"b":{"nodePodsAccessible":true},"r.example/a\\u003cb\\u003e":{"kubernetesSecrets":[{"uid":"u","namespace":"n","name":"s","credentialHash":"h"}]}}}\n';
const record = {
  lastUpdatedTime: "1970-01-01T00:00:00Z",
  imageRef: "sha256:k",
  credentialMapping: {
    "r.example/a<b>": { kubernetesSecrets: [{ name: "s", namespace: "n", uid: "u", credentialHash: "h" }] },
    b: { nodePodsAccessible: true },
  },
};

test("a record is encoded and decoded as the kubelet does it, byte for byte", () => {
  expect(encodePulledRecord(record)).toBe(golden);
  expect(decodePulledRecord(golden)).toEqual(record);
});

test("a record without credentials omits the mapping", () => {
  const text = encodePulledRecord({ ...record, credentialMapping: {} });
  expect(text).toEndWith('"imageRef":"sha256:k"}\n');
  expect(decodePulledRecord(text)?.credentialMapping).toEqual({});
});

test("an intent decodes to its image, and other content is rejected", () => {
  expect(decodePullIntent(encodePullIntent("app:1"))).toBe("app:1");
  for (const text of ["", "null", "{}", golden, '{"kind":"ImagePullIntent","apiVersion":"v1","image":"app:1"}'])
    expect(decodePullIntent(text)).toBeUndefined();
});
