import { test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KubeObject, Resource } from "../../kube/resource.ts";
import { createAdminConnection } from "../upstream/admin-client.ts";
import { startControlPlane } from "../upstream/control-plane.ts";
import { skipWithoutPrograms } from "../upstream/programs.ts";
import { kubeContract } from "./kube.ts";
import { type KubeSubject, namespace } from "./kube-fixture.ts";

const namespaces: Resource = { group: "", version: "v1", plural: "namespaces" };
const serviceAccounts: Resource = { group: "", version: "v1", plural: "serviceaccounts", namespace };
const skip = skipWithoutPrograms("the contract of the API server on kube-apiserver", ["etcd", "kube-apiserver"]);

if (skip === undefined) kubeContract("kube-apiserver", startSubject);
else test.skip(`kube-apiserver: ${skip}`, () => {});

/** Starts etcd and kube-apiserver without controllers, which would remove pods whose node has no kubelet. */
async function startSubject(): Promise<KubeSubject> {
  const stateDir = await mkdtemp(join(tmpdir(), "berth-kube-contract-"));
  const controlPlane = await startControlPlane({ stateDir, components: [], print: console.log });
  const { kube, connection, clock } = createAdminConnection(controlPlane, "administrator");
  const named = (name: string): KubeObject => ({ metadata: { name } });
  await kube.create(namespaces, named(namespace));
  await kube.create(serviceAccounts, named("default"));
  return {
    connection,
    clock,
    async compact() {
      await controlPlane.compactEtcd();
      await controlPlane.restartApiServer();
    },
    async end() {
      connection.close();
      await controlPlane.stop();
      await rm(stateDir, { recursive: true });
    },
  };
}
