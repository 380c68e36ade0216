import type { ObjectOfCase } from "./pod-case.ts";

export const configMap = (name: string, data: Readonly<Record<string, string>>): ObjectOfCase => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name },
  data,
});
export const secret = (name: string, stringData: Readonly<Record<string, string>>): ObjectOfCase => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name },
  stringData,
});

/** Bytes that are no text. */
const bytes = Buffer.from([0, 1, 0xfe, 0xff, 10, 0]).toString("base64");
/** With its name this is nearly the 1 MiB that an object may hold. */
const large = "0123456789abcde\n".repeat(65_000);

/** The ConfigMaps and Secrets that volumes show, in every namespace. They never change. */
export const objectsOfVolumes: readonly ObjectOfCase[] = [
  {
    ...configMap("settings", { "app.conf": "a = 1\nb = 2\n", plain: "text", "dots.and-dashes_1": "odd", empty: "" }),
    binaryData: { "raw.bin": bytes },
  },
  configMap("overlap", { plain: "of overlap", own: "only here" }),
  { ...configMap("fixed", { ".hidden": "of a dot", long: "x".repeat(400) }), immutable: true },
  configMap("nothing", {}),
  configMap("large", { all: large }),
  {
    ...secret("keys", { "tls.crt": "a certificate", "tls.key": "a key\n", plain: "of keys" }),
    data: { "raw.bin": bytes },
  },
  secret("large", { all: large }),
];
