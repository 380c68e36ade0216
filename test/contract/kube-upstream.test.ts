import { test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../../host/clock.ts";
import { createKube } from "../../kube/client.ts";
import { createConnection } from "../../kube/connection.ts";
import type { KubeObject, Resource } from "../../kube/resource.ts";
import { fixedCluster } from "../fakes/cluster.ts";
import { FakeLog } from "../fakes/log.ts";
import { startControlPlane } from "../upstream/control-plane.ts";
import { skipWithoutPrograms } from "../upstream/programs.ts";
import { kubeContract } from "./kube.ts";
import { type KubeSubject, namespace } from "./kube-scene.ts";

const namespaces: Resource = { group: "", version: "v1", plural: "namespaces" };
const serviceAccounts: Resource = { group: "", version: "v1", plural: "serviceaccounts", namespace };
const skip = skipWithoutPrograms("the contract of the API server on a real one", ["etcd", "kube-apiserver"]);

if (skip === undefined) kubeContract("kube-apiserver", startSubject);
else test.skip(`kube-apiserver: ${skip}`, () => {});

/** Without controllers: they would remove pods whose node has no kubelet. */
async function startSubject(): Promise<KubeSubject> {
  const stateDir = await mkdtemp(join(tmpdir(), "berth-kube-contract-"));
  const plane = await startControlPlane({ stateDir, parts: [], say: console.log });
  const certificate = plane.authority.issue({ commonName: "administrator", organizations: ["system:masters"] });
  const [clock, log, random] = [createClock(), new FakeLog(), () => 0];
  const connection = createConnection({
    cluster: fixedCluster({
      server: new URL(plane.server),
      certificateAuthority: plane.ca,
      tlsServerName: undefined,
      insecureSkipTlsVerify: false,
      credentials: { identity: async () => ({ certificate }), refused: () => {} },
    }),
    userAgent: "berth-contract",
    rates: { main: undefined, events: undefined },
    clock,
    random,
    log,
  });
  const kube = createKube({ connection, clock, log, random });
  const named = (name: string): KubeObject => ({ metadata: { name } });
  await kube.create(namespaces, named(namespace));
  await kube.create(serviceAccounts, named("default"));
  return {
    connection,
    clock,
    async forget() {
      await plane.compactEtcd();
      await plane.restartApiServer();
    },
    async end() {
      connection.close();
      await plane.stop();
      await rm(stateDir, { recursive: true });
    },
  };
}
