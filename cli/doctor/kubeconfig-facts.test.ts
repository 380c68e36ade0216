import { afterEach, beforeEach, expect, test } from "bun:test";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../host/fs/files.ts";
import { createCertificateAuthority } from "../../test/upstream/pki.ts";
import { readApiServerEndpoint, readKubeconfigFacts } from "./kubeconfig-facts.ts";

const validFrom = new Date("2026-01-01T00:00:00Z");
const validTo = new Date("2027-01-01T00:00:00Z");
const certificate = { notBeforeMs: validFrom.getTime(), notAfterMs: validTo.getTime() };
const pair = createCertificateAuthority("test").issue({ commonName: "system:node:a", validFrom, validTo });

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-kubeconfig-"));
  path = join(folder, "kubelet.conf");
});
afterEach(() => rm(folder, { recursive: true }));

async function factsOf(user: Readonly<Record<string, string>>) {
  const kubeconfig = {
    "current-context": "mine",
    contexts: [
      { name: "other", context: { user: "nobody" } },
      { name: "mine", context: { user: "node" } },
    ],
    users: [{ name: "nobody" }, { name: "node", user }],
  };
  await writeFile(path, JSON.stringify(kubeconfig));
  await chmod(path, 0o640);
  return await readKubeconfigFacts(createFiles("/"), path);
}

test("the files of the current context's user are found relative to the kubeconfig, with their modes", async () => {
  const both = join(folder, "current.pem");
  await writeFile(both, pair.key + pair.cert);
  await chmod(both, 0o600);
  expect(
    await factsOf({ "client-certificate": "current.pem", "client-key": "current.pem", tokenFile: "none" }),
  ).toEqual({
    path,
    mode: 0o640,
    secretFiles: [
      { path: both, mode: 0o600 },
      { path: join(folder, "none"), mode: undefined },
    ],
    certificate,
  });
});

test("an inline certificate counts before a file", async () => {
  const data = Buffer.from(pair.cert).toString("base64");
  const { certificate: found } = await factsOf({ "client-certificate-data": data, "client-certificate": "none" });
  expect(found).toEqual(certificate);
});

test("a user with a token alone has no certificate", async () => {
  expect(await factsOf({ token: "secret" })).toEqual({ path, mode: 0o640, secretFiles: [] });
});

async function endpointOf(cluster: Readonly<Record<string, unknown>>) {
  const kubeconfig = {
    "current-context": "mine",
    contexts: [{ name: "mine", context: { cluster: "own" } }],
    clusters: [
      { name: "other", cluster: { server: "https://192.0.2.9:6443" } },
      { name: "own", cluster },
    ],
  };
  await writeFile(path, JSON.stringify(kubeconfig));
  return await readApiServerEndpoint(createFiles("/"), path);
}

test("the API server is that of the current context's cluster, with its authority", async () => {
  const server = "https://192.0.2.1:6443";
  const found = { server: new URL(server), tlsServerName: undefined, insecureSkipTlsVerify: false };
  const data = Buffer.from(pair.cert).toString("base64");
  expect(await endpointOf({ server, "certificate-authority-data": data })).toEqual({
    ...found,
    certificateAuthority: pair.cert,
  });
  await writeFile(join(folder, "ca.pem"), pair.cert);
  expect(await endpointOf({ server, "certificate-authority": "ca.pem", "tls-server-name": "api" })).toEqual({
    ...found,
    certificateAuthority: pair.cert,
    tlsServerName: "api",
  });
  expect(await endpointOf({ server, "insecure-skip-tls-verify": true })).toEqual({
    ...found,
    certificateAuthority: undefined,
    insecureSkipTlsVerify: true,
  });
});

test("a kubeconfig without an address of the API server is refused without a quotation", async () => {
  for (const cluster of [{}, { server: "http://secret" }, { server: "https://" }])
    await expect(endpointOf(cluster)).rejects.toThrow(`${path} names no server such as https://192.168.0.1:6443`);
});

test("a missing kubeconfig has no API server", async () => {
  expect(await readApiServerEndpoint(createFiles("/"), path)).toBeUndefined();
});

test("a kubeconfig that berth run refuses is refused, without a quotation", async () => {
  await expect(factsOf({ "auth-provider": "hunter2" })).rejects.toThrow(
    `${path} sets auth-provider for its user, which berth run refuses`,
  );
  await writeFile(path, JSON.stringify({ contexts: [{ name: "mine", context: { user: "node" } }], users: [] }));
  await expect(readKubeconfigFacts(createFiles("/"), path)).rejects.toThrow(
    `${path} has no context of the name that current-context gives`,
  );
});

test("a missing kubeconfig has no mode", async () => {
  expect(await readKubeconfigFacts(createFiles("/"), path)).toEqual({ path, mode: undefined, secretFiles: [] });
});

test.each([
  ["text that is not YAML", "users: [secret", ":1 is not YAML"],
  ["text without fields", "secret", " is not a kubeconfig: it has no fields"],
])("%s is refused without a quotation", async (_, text, why) => {
  await writeFile(path, text);
  const refused = readKubeconfigFacts(createFiles("/"), path);
  await expect(refused).rejects.toThrow(new RegExp(`^${RegExp.escape(path + why)}$`));
});

test("a certificate that is none is refused without a quotation", async () => {
  await writeFile(join(folder, "c.pem"), pair.key);
  const why = `${join(folder, "c.pem")} contains no certificate`;
  await expect(factsOf({ "client-certificate": "c.pem" })).rejects.toThrow(new RegExp(`^${RegExp.escape(why)}$`));
});
