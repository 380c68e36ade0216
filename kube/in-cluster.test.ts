import { expect, test } from "bun:test";
import { FakeClock } from "../test/fakes/clock.ts";
import { FakeDisk } from "../test/fakes/files.ts";
import { FakeLog } from "../test/fakes/log.ts";
import { createAuthority } from "../test/upstream/pki.ts";
import { readInCluster } from "./in-cluster.ts";

const authority = createAuthority("kubernetes");
const folder = "/var/run/secrets/kubernetes.io/serviceaccount";

async function podWith(environment: Readonly<Record<string, string>>) {
  const clock = new FakeClock();
  const files = new FakeDisk(clock.now).at("/");
  await files.makeFolder(folder, 0o755);
  await files.write(`${folder}/ca.crt`, authority.cert, 0o644);
  await files.write(`${folder}/token`, "one", 0o600);
  return { clock, files, read: () => readInCluster({ environment, files, clock, log: new FakeLog() }) };
}

test("the service account of a pod is who we are, and its token is taken up when it is renewed", async () => {
  const pod = await podWith({ KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" });
  const cluster = await pod.read();
  expect(cluster.server.href).toBe("https://10.96.0.1/");
  expect(cluster.certificateAuthority).toBe(authority.cert);
  expect(await cluster.credentials.identity()).toEqual({ token: "one" });
  await pod.files.write(`${folder}/token`, "two", 0o600);
  await pod.clock.advance(1000);
  expect(await cluster.credentials.identity()).toEqual({ token: "two" });
});

test("an IPv6 address is one too", async () => {
  const pod = await podWith({ KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "6443" });
  expect((await pod.read()).server.host).toBe("[fd00::1]:6443");
});

test("outside of a pod it is said that this is none", async () => {
  const pod = await podWith({});
  const error = await pod.read().catch((failure: unknown) => failure);
  expect(error).toMatchObject({
    code: "CREDENTIALS",
    message:
      "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no container of a pod, so name a kubeconfig",
  });
});
