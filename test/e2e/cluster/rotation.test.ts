import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Lease } from "../../../proto/kubernetes/gen/types.ts";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { serverHosts } from "../../upstream/control-plane-args.ts";
import { createCertificateAuthority } from "../../upstream/pki.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { barePod } from "./api-objects.ts";
import { type JoinFixture, nodeName, startJoinFixture } from "./join-fixture.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("credentials and kubeconfigs that change while the agent runs");

describe.skipIf(skip !== undefined)("a running agent uses", () => {
  let fixture: JoinFixture;
  let container: string | undefined;
  const kubectl = (...args: readonly string[]) => fixture.plane.kubectl(args);
  const lease = async () =>
    JSON.parse(await kubectl("get", "lease", nodeName, "--namespace=kube-node-lease", "--output=json")) as Lease;
  const waitForRenewal = async () => {
    const before = (await lease()).spec?.renewTime ?? "";
    await pollUntil(
      "a lease that is renewed",
      30_000,
      async () => ((await lease()).spec?.renewTime ?? "") > before,
      100,
    );
  };
  const containerOf = () =>
    kubectl("get", "pod", "kept", "--output=jsonpath={.status.containerStatuses[0].containerID}");
  /** Creates a pod with `nodeName`, since no scheduler runs. */
  const apply = async (name: string) => {
    const pod = barePod(name);
    const bound = { ...pod, spec: { ...pod.spec, nodeName } };
    await fixture.plane.kubectl(["apply", "--filename=-"], { input: JSON.stringify(bound) });
    await kubectl("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=180s");
  };
  const checkNode = async (name: string) => {
    await waitForRenewal();
    await apply(name);
    await kubectl("delete", "pod", name, "--timeout=180s");
    expect(await containerOf()).toBe(container!);
  };

  beforeAll(async () => {
    fixture = await startJoinFixture();
    await kubectl("create", "serviceaccount", "default").catch(() => "it is there");
    await fixture.writeFiles(fixture.correctFiles());
    await fixture.writeKubeconfig();
    // With this duration the agent renews the lease every second.
    await fixture.startAgent({ nodeLeaseDurationSeconds: 4 });
    await fixture.waitUntilReady();
    await apply("kept");
    container = await containerOf();
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await kubectl("delete", "pod", "kept", "--timeout=180s");
    await fixture?.end();
  });

  test("a renewed client certificate from its files before the old one expires", async () => {
    // A slow machine needs some seconds to see two renewals by kubectl.
    const expires = Date.now() + 30_000;
    await fixture.writeFiles(fixture.certificate({ validTo: new Date(expires) }));
    await waitForRenewal();
    await waitForRenewal();
    await fixture.writeFiles(fixture.certificate());
    await pollUntil("the old one to have expired", 60_000, () => Date.now() > expires + 1_000);
    await checkNode("by-certificate");
    expect(await fixture.clusterProblems()).toEqual([]);
  });

  test("a renewed token from its file when the old one becomes invalid", async () => {
    for (const name of ["old", "new"]) {
      await kubectl("create", "serviceaccount", name);
      await kubectl(
        "create",
        "clusterrolebinding",
        name,
        "--clusterrole=cluster-admin",
        `--serviceaccount=default:${name}`,
      );
    }
    await fixture.writeFiles({ token: await kubectl("create", "token", "old") });
    await fixture.writeKubeconfig({}, { tokenFile: "token" });
    await waitForRenewal();
    await fixture.writeFiles({ token: await kubectl("create", "token", "new") });
    await kubectl("delete", "serviceaccount", "old");
    await checkNode("by-token");
    expect(await fixture.clusterProblems()).toEqual([]);
  });

  test("the credentials of an exec plugin, and runs it again when they have expired", async () => {
    const { "node.crt": clientCertificateData, "node.key": clientKeyData } = fixture.certificate();
    const apiVersion = "client.authentication.k8s.io/v1";
    const expirationTimestamp = new Date(Date.now() + 5_000).toISOString();
    const status = { clientCertificateData, clientKeyData };
    const credential = (more: object) =>
      JSON.stringify({ apiVersion, kind: "ExecCredential", status: { ...status, ...more } });
    await fixture.writeFiles({
      first: credential({ expirationTimestamp }),
      next: credential({}),
      runs: "",
      plugin: [
        "#!/bin/sh",
        'cd "$(dirname "$0")" || exit 1',
        "if [ -s runs ]; then cat next; else cat first; fi",
        "echo run >> runs",
      ].join("\n"),
    });
    await chmod(fixture.path("plugin"), 0o700);
    await fixture.writeKubeconfig({}, { exec: { apiVersion, command: "./plugin", interactiveMode: "Never" } });
    const runs = async () => (await readFile(fixture.path("runs"), "utf8")).trim().split("\n").length;
    await pollUntil("a second run", 30_000, async () => (await runs()) >= 2);
    await checkNode("by-plugin");
    expect(await fixture.clusterProblems()).toEqual([]);
  });

  test("a changed kubeconfig with another server address, and ignores a broken one before it", async () => {
    await fixture.writeFiles({ "kubelet.conf": "{ apiVersion: v1" });
    await fixture.node.waitForLogLine("warn", "the kubeconfig cannot be used; keeping what was read before");
    await waitForRenewal();
    expect(
      (await fixture.node.log()).match(/warn +the kubeconfig cannot be used; keeping what was read before/g),
    ).toHaveLength(1);

    await fixture.writeKubeconfig({ server: fixture.relayUrl });
    await pollUntil(
      "the other way",
      20_000,
      async () => (await fixture.statusJson()).cluster?.server === new URL(fixture.relayUrl).host,
    );
    await checkNode("by-relay");
    await fixture.writeKubeconfig();
    await waitForRenewal();
    // Closing the old connection must not affect requests: those in progress continue on the new one.
    fixture.relay.reset();
    await checkNode("directly");
    expect((await fixture.statusJson()).cluster?.server).toBe(new URL(fixture.plane.server).host);
  });

  test("a changed CA file when the API server's certificate is from another authority", async () => {
    const next = createCertificateAuthority("the next one");
    const certs = bedPaths(fixture.plane.record.stateDir).controlPlaneCerts;
    const [certFile, keyFile] = [join(certs, "server.crt"), join(certs, "server.key")];
    const before = [await readFile(certFile), await readFile(keyFile)] as const;
    const { cert, key } = next.issue({ commonName: "kube-apiserver", hosts: serverHosts });
    await fixture.writeKubeconfig({ server: fixture.relayUrl });
    await waitForRenewal();
    await writeFile(keyFile, key);
    await writeFile(certFile, cert);
    await pollUntil("a refusal", 60_000, async () => {
      fixture.relay.reset();
      return (await fixture.clusterProblems()).some((line) =>
        /is not signed by the configured certificate authority/.test(line),
      );
    });
    await fixture.writeFiles({ "ca.crt": next.cert });
    await pollUntil(
      "an answer",
      30_000,
      async () => (await fixture.statusJson()).cluster?.connection.state === "connected",
    );
    await fixture.node.waitForLogLine("the API server answers again");

    await fixture.writeFiles({ "ca.crt": next.cert + fixture.plane.ca });
    await writeFile(keyFile, before[1]);
    await writeFile(certFile, before[0]);
    await pollUntil(
      "kubectl to be served",
      60_000,
      async () =>
        await kubectl("get", "nodes").then(
          () => true,
          () => false,
        ),
    );
    await checkNode("by-authority");
  });
});
