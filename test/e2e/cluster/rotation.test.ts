import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Lease } from "../../../proto/kubernetes/gen/types.ts";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { until } from "../../bed/poll-until.ts";
import { serverHosts } from "../../upstream/control-plane-args.ts";
import { createAuthority } from "../../upstream/pki.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { barePod } from "./api-objects.ts";
import { type Joining, nodeName, startJoining } from "./join-fixture.ts";

setDefaultTimeout(90_000);

const skip = skipWithoutPrograms("what a node of a cluster takes up while it runs");
/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;

describe.skipIf(skip !== undefined)("a node of a cluster takes up while it runs", () => {
  let joining: Joining;
  let container: string | undefined;
  const kubectl = (...args: readonly string[]) => joining.plane.kubectl(args);
  const lease = async () =>
    JSON.parse(await kubectl("get", "lease", nodeName, "--namespace=kube-node-lease", "--output=json")) as Lease;
  const renewed = async () => {
    const before = (await lease()).spec?.renewTime ?? "";
    await until("a lease that is renewed", 30_000, async () => ((await lease()).spec?.renewTime ?? "") > before);
  };
  const containerOf = () =>
    kubectl("get", "pod", "kept", "--output=jsonpath={.status.containerStatuses[0].containerID}");
  /** Without a scheduler it is bound by hand. */
  const apply = async (name: string) => {
    const pod = barePod(name);
    const bound = { ...pod, spec: { ...pod.spec, nodeName } };
    await joining.plane.kubectl(["apply", "--filename=-"], { input: JSON.stringify(bound) });
    await kubectl("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=30s");
  };
  const works = async (name: string) => {
    await renewed();
    await apply(name);
    await kubectl("delete", "pod", name, "--timeout=30s");
    expect(await containerOf()).toBe(container!);
  };

  beforeAll(async () => {
    joining = await startJoining();
    await kubectl("create", "serviceaccount", "default").catch(() => "it is there");
    await joining.put(joining.right());
    await joining.configure();
    // Then the lease is renewed every second.
    await joining.begin({ nodeLeaseDurationSeconds: 4 });
    await joining.ready();
    await apply("kept");
    container = await containerOf();
  }, BUILD_MS);
  afterAll(async () => {
    await kubectl("delete", "pod", "kept", "--timeout=30s");
    await joining?.end();
  });

  test("another certificate in the files, before the old one expires", async () => {
    const expires = Date.now() + 8_000;
    await joining.put(joining.certificate({ validTo: new Date(expires) }));
    await renewed();
    await renewed();
    await joining.put(joining.certificate());
    await until("the old one to have expired", 40_000, () => Date.now() > expires + 1_000);
    await works("by-certificate");
    expect(await joining.told()).toEqual([]);
  });

  test("another token in its file, and the old one is worth nothing any more", async () => {
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
    await joining.put({ token: await kubectl("create", "token", "old") });
    await joining.configure({}, { tokenFile: "token" });
    await renewed();
    await joining.put({ token: await kubectl("create", "token", "new") });
    await kubectl("delete", "serviceaccount", "old");
    await works("by-token");
    expect(await joining.told()).toEqual([]);
  });

  test("what a program gives it to be known by, and asks again when that has expired", async () => {
    const { "node.crt": clientCertificateData, "node.key": clientKeyData } = joining.certificate();
    const apiVersion = "client.authentication.k8s.io/v1";
    const expirationTimestamp = new Date(Date.now() + 5_000).toISOString();
    const status = { clientCertificateData, clientKeyData };
    const credential = (more: object) =>
      JSON.stringify({ apiVersion, kind: "ExecCredential", status: { ...status, ...more } });
    await joining.put({
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
    await chmod(joining.path("plugin"), 0o700);
    await joining.configure({}, { exec: { apiVersion, command: "./plugin", interactiveMode: "Never" } });
    const runs = async () => (await readFile(joining.path("runs"), "utf8")).trim().split("\n").length;
    await until("a second run", 30_000, async () => (await runs()) >= 2);
    await works("by-plugin");
    expect(await joining.told()).toEqual([]);
  });

  test("another kubeconfig with another way to the server; a broken one before it changes nothing", async () => {
    await joining.put({ "kubelet.conf": "{ apiVersion: v1" });
    await joining.node.logged("warn", "the kubeconfig cannot be used any more, and what was read before stays");
    await renewed();
    expect(
      (await joining.node.log()).match(/warn +the kubeconfig cannot be used any more, and what was read before stays/g),
    ).toHaveLength(1);

    await joining.configure({ server: joining.viaRelay });
    await until(
      "the other way",
      20_000,
      async () => (await joining.statusJson()).cluster?.server === new URL(joining.viaRelay).host,
    );
    await works("by-relay");
    await joining.configure();
    await renewed();
    // Nothing needs the way that is given up but what was under way, which goes on by the new one.
    joining.relay.reset();
    await works("directly");
    expect((await joining.statusJson()).cluster?.server).toBe(new URL(joining.plane.server).host);
  });

  test("another authority in its file, when the API server has a certificate of that one only", async () => {
    const next = createAuthority("the next one");
    const certs = bedPaths(joining.plane.record.stateDir).controlPlaneCerts;
    const [certFile, keyFile] = [join(certs, "server.crt"), join(certs, "server.key")];
    const before = [await readFile(certFile), await readFile(keyFile)] as const;
    const { cert, key } = next.issue({ commonName: "kube-apiserver", hosts: serverHosts });
    await joining.configure({ server: joining.viaRelay });
    await renewed();
    await writeFile(keyFile, key);
    await writeFile(certFile, cert);
    await until("a refusal", 60_000, async () => {
      joining.relay.reset();
      return (await joining.told()).some((line) =>
        /is not from the certificate authority that we were given/.test(line),
      );
    });
    await joining.put({ "ca.crt": next.cert });
    await until(
      "an answer",
      30_000,
      async () => (await joining.statusJson()).cluster?.connection.state === "connected",
    );
    await joining.node.logged("the API server answers again");

    await joining.put({ "ca.crt": next.cert + joining.plane.ca });
    await writeFile(keyFile, before[1]);
    await writeFile(certFile, before[0]);
    await until(
      "kubectl to be served",
      60_000,
      async () =>
        await kubectl("get", "nodes").then(
          () => true,
          () => false,
        ),
    );
    await works("by-authority");
  });
});
