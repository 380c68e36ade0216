import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createCertificateAuthority } from "../../test/upstream/pki.ts";
import { readInCluster } from "./in-cluster.ts";

const authority = createCertificateAuthority("kubernetes");
const folder = "/var/run/secrets/kubernetes.io/serviceaccount";

async function podWith(environment: Readonly<Record<string, string>>) {
  const clock = new FakeClock();
  const files = new FakeDisk(clock.now).at("/");
  await files.makeFolder(folder, 0o755);
  await files.write(`${folder}/ca.crt`, authority.cert, 0o644);
  await files.write(`${folder}/token`, "one", 0o600);
  return { clock, files, read: () => readInCluster({ environment, files, clock, log: new FakeLog() }) };
}

test("the identity is the pod's service account, and a renewed token is used", async () => {
  const pod = await podWith({ KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" });
  const source = pod.read();
  const cluster = await source.latest();
  expect(cluster.server.href).toBe("https://10.96.0.1/");
  expect(cluster.certificateAuthority).toBe(authority.cert);
  expect(await cluster.credentials.identity()).toEqual({ token: "one" });
  await pod.files.write(`${folder}/token`, "two", 0o600);
  await pod.clock.advance(1000);
  expect(await cluster.credentials.identity()).toEqual({ token: "two" });
});

test("an IPv6 address of the API server works, too", async () => {
  const pod = await podWith({ KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "6443" });
  expect(pod.read().server().host).toBe("[fd00::1]:6443");
});

test("a replaced CA is used, and an invalid one is not", async () => {
  const pod = await podWith({ KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" });
  const source = pod.read();
  const before = await source.latest();
  const write = async (text: string) => {
    await pod.files.write(`${folder}/ca.crt`, text, 0o644);
    await pod.clock.advance(1000);
  };
  await write("half");
  expect(await source.latest()).toBe(before);
  const { cert } = createCertificateAuthority("kubernetes");
  await write(cert);
  expect((await source.latest()).certificateAuthority).toBe(cert);
  expect((await source.latest()).credentials).toBe(before.credentials);
});

test("a service account volume that does not exist yet is waited for", async () => {
  const pod = await podWith({ KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" });
  await pod.files.remove(`${folder}/ca.crt`);
  const source = pod.read();
  const missing = await source.latest().catch((failure: unknown) => failure);
  expect(missing).toMatchObject({
    code: "CREDENTIALS",
    message: expect.stringContaining("ca.crt does not exist: --in-cluster refers to it"),
  });
  await pod.files.write(`${folder}/ca.crt`, authority.cert, 0o644);
  await pod.clock.advance(1000);
  expect((await source.latest()).certificateAuthority).toBe(authority.cert);
});

const nowhere: readonly Readonly<Record<string, string>>[] = [
  {},
  { KUBERNETES_SERVICE_HOST: "10.96.0.1" },
  { KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "tcp://10.96.0.1:443" },
  { KUBERNETES_SERVICE_HOST: "a b", KUBERNETES_SERVICE_PORT: "443" },
];
for (const environment of nowhere)
  test(`outside of a pod it fails with advice: ${JSON.stringify(environment)}`, async () => {
    const pod = await podWith(environment);
    expect(pod.read).toThrow(
      "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not name an API server: outside of a pod use --kubeconfig instead of --in-cluster",
    );
  });
