import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, rm } from "node:fs/promises";
import { pollUntil } from "../../bed/poll-until.ts";
import { createCertificateAuthority } from "../../upstream/pki.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { podOf } from "../manifest.ts";
import { barePod } from "./api-objects.ts";
import { type JoinFixture, nodeName, startJoinFixture } from "./join-fixture.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("problems that prevent a node from joining its cluster");
const dayMs = 86_400_000;

interface JoinProblem {
  readonly what: string;
  /** Causes the problem before the agent starts. */
  readonly introduce: (fixture: JoinFixture) => Promise<unknown>;
  /** The log line that must appear once. */
  readonly expectedLog: RegExp;
  /** Fixes the problem while the agent runs. */
  readonly fix: (fixture: JoinFixture) => Promise<unknown>;
}

const other = createCertificateAuthority("another");
/** A correct setup except for these files. */
const withFiles =
  (files: (fixture: JoinFixture) => Readonly<Record<string, string>>): JoinProblem["introduce"] =>
  async (fixture) => {
    await fixture.writeKubeconfig();
    await fixture.writeFiles({ ...fixture.correctFiles(), ...files(fixture) });
  };
const withoutFile =
  (name: string): JoinProblem["introduce"] =>
  async (fixture) => {
    await withFiles(() => ({}))(fixture);
    await rm(fixture.path(name));
  };
const withCluster =
  (cluster: object, user?: object): JoinProblem["introduce"] =>
  async (fixture) => {
    await fixture.writeFiles(fixture.correctFiles());
    await fixture.writeKubeconfig(cluster, user);
  };
const restoreFiles: JoinProblem["fix"] = (fixture) => fixture.writeFiles(fixture.correctFiles());
const restoreConfig: JoinProblem["fix"] = (fixture) => fixture.writeKubeconfig();

const rows: readonly JoinProblem[] = [
  {
    what: "a missing client key",
    introduce: withoutFile("node.key"),
    expectedLog:
      /node\.key does not exist: client-key \(\S+kubelet\.conf:\d+\) refers to it; create it with read permission, or configure another file/,
    fix: restoreFiles,
  },
  {
    what: "a client key of another certificate",
    introduce: withFiles((fixture) => ({ "node.key": fixture.certificate()["node.key"] })),
    expectedLog: /the key in \S+node\.key does not belong to the certificate in \S+node\.crt: replace one of them/,
    fix: restoreFiles,
  },
  {
    what: "an expired client certificate",
    introduce: withFiles((fixture) =>
      fixture.certificate({ validFrom: new Date(Date.now() - 9 * dayMs), validTo: new Date(Date.now() - dayMs) }),
    ),
    expectedLog: /does not accept us: our client certificate expired on 20\S+Z: issue a new one for this node/,
    fix: restoreFiles,
  },
  {
    what: "a client certificate that is not valid yet, as when the clock is wrong",
    introduce: withFiles((fixture) =>
      fixture.certificate({ validFrom: new Date(Date.now() + dayMs), validTo: new Date(Date.now() + 9 * dayMs) }),
    ),
    expectedLog:
      /our client certificate is valid only from 20\S+Z, but this machine's clock shows 20\S+: set the clock/,
    fix: restoreFiles,
  },
  {
    what: "a client certificate of an unknown authority",
    introduce: withFiles((fixture) => fixture.certificate({}, other)),
    expectedLog:
      /does not accept the client certificate of "system:node:node-a": renew it, or use the kubeconfig of this cluster/,
    fix: restoreFiles,
  },
  {
    what: "a client certificate of another node",
    introduce: withFiles((fixture) => fixture.certificate({ commonName: "system:node:node-b" })),
    expectedLog:
      /issued to the node \\?"node-b\\?", but this node is named \\?"node-a\\?": set --hostname-override=node-b, or use a certificate for system:node:node-a/,
    fix: restoreFiles,
  },
  {
    what: "a client certificate without the group system:nodes",
    introduce: withFiles((fixture) => fixture.certificate({ organizations: [] })),
    expectedLog:
      /our client certificate for system:node:node-a lacks the group of nodes: it has to be issued with O=system:nodes/,
    fix: restoreFiles,
  },
  {
    what: "a missing CA file",
    introduce: withoutFile("ca.crt"),
    expectedLog: /ca\.crt does not exist: certificate-authority \(\S+kubelet\.conf:\d+\) refers to it; create it/,
    fix: restoreFiles,
  },
  {
    what: "a CA that did not issue the API server's certificate",
    introduce: withFiles(() => ({ "ca.crt": other.cert })),
    expectedLog:
      /the certificate of 127\.0\.0\.1:\d+ is not signed by the configured certificate authority: correct certificate-authority/,
    fix: restoreFiles,
  },
  {
    what: "a server name that is not in the API server's certificate",
    introduce: withCluster({ "tls-server-name": "elsewhere.example" }),
    expectedLog:
      /is not valid for elsewhere\.example: use a name that it contains \(.*DNS:kubernetes\.default\.svc.*\) as server/,
    fix: restoreConfig,
  },
  {
    what: "an unknown host",
    introduce: withCluster({ server: "https://no-such-host.invalid:6443" }),
    expectedLog:
      /(there is no host no-such-host\.invalid: correct the server's address|the host no-such-host\.invalid cannot be looked up)/,
    fix: restoreConfig,
  },
  {
    what: "an invalid token",
    async introduce(fixture) {
      await fixture.writeFiles({ ...fixture.correctFiles(), token: "abc.def.ghi" });
      await fixture.writeKubeconfig({}, { tokenFile: "token" });
    },
    expectedLog: /does not accept our token: renew it, or use the kubeconfig of this cluster/,
    fix: async (fixture) => fixture.writeFiles({ token: await fixture.plane.kubectl(["create", "token", "node"]) }),
  },
  {
    what: "a kubeconfig without credentials",
    introduce: withCluster({}, {}),
    expectedLog:
      /is forbidden: User \\?"system:anonymous\\?" .*; the kubeconfig's user has no credentials: give it a client certificate, a token or exec/,
    fix: restoreConfig,
  },
  {
    what: "an API server that does not run",
    async introduce(fixture) {
      await withCluster({})(fixture);
      await fixture.plane.stopApiServer();
    },
    expectedLog: /nothing listens at 127\.0\.0\.1:\d+: is the API server running, and is this its port\?/,
    fix: (fixture) => fixture.plane.startApiServer(),
  },
  {
    what: "an API server that never answers",
    async introduce(fixture) {
      await withCluster({ server: fixture.relayUrl })(fixture);
      fixture.relay.stall();
    },
    expectedLog: /127\.0\.0\.1:\d+ does not answer: is the address right, and does a firewall lie in between\?/,
    fix: async (fixture) => fixture.relay.resume(),
  },
];

/** The time of the last error, if it still persists. */
async function lastAttempt({ statusJson }: JoinFixture): Promise<string | undefined> {
  const { cluster } = await statusJson();
  return cluster?.connection.state === "away" ? cluster.connection.lastError.at : cluster?.nodeStatus.error?.at;
}

describe.skipIf(skip !== undefined)("bad input:", () => {
  let fixture: JoinFixture;
  beforeAll(async () => {
    fixture = await startJoinFixture();
    const { kubectl } = fixture.plane;
    for (const name of ["default", "node"]) await kubectl(["create", "serviceaccount", name]);
    await kubectl([
      "create",
      "clusterrolebinding",
      "node",
      "--clusterrole=cluster-admin",
      "--serviceaccount=default:node",
    ]);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => fixture?.end());
  afterEach(async () => {
    await fixture.node.agent.stop();
    await fixture.plane.kubectl(["delete", "node", nodeName, "--ignore-not-found"]);
  });

  for (const { what, introduce, expectedLog, fix } of rows)
    test(`a node with ${what} logs it once, shows it by berth status, and joins when it is fixed`, async () => {
      await introduce(fixture);
      await fixture.startAgent();
      const { pid } = fixture.node.agent;
      const matchingLines = async () => (await fixture.clusterProblems()).filter((line) => expectedLog.test(line));
      await pollUntil(`a line like ${expectedLog}`, 20_000, async () => (await matchingLines()).length > 0);
      // It keeps retrying without further lines: each component that failed has one line of its own.
      const first = await lastAttempt(fixture);
      await pollUntil("a later attempt", 20_000, async () => (await lastAttempt(fixture)) !== first);
      const loggedLines = (await matchingLines()).map((line) => line.replace(/^\S+ /, ""));
      expect(loggedLines).toEqual([...new Set(loggedLines)]);
      const status = await fixture.status();
      expect(status).toMatch(expectedLog);
      expect(status).toMatch(/trying again/);
      expect(status).toMatch(/^node status +not reported yet/m);

      await fix(fixture);
      await fixture.waitUntilReady();
      expect([fixture.node.agent.isRunning, fixture.node.agent.pid]).toEqual([true, pid]);
      await pollUntil(
        "no error in berth status",
        45_000,
        async () => !/trying again|not \w+ yet/.test(await fixture.status()),
      );
    });

  test("a pod with the largest annotations that the API server accepts runs, and a static pod with larger ones is refused", async () => {
    const { node, plane } = fixture;
    await fixture.writeFiles(fixture.correctFiles());
    await fixture.writeKubeconfig();
    await fixture.startAgent();
    await fixture.waitUntilReady();
    const annotations = (bytes: number) => ({ annotations: { "example.com/large": "x".repeat(bytes) } });
    const pod = barePod("most");
    const most = { ...pod, metadata: { ...pod.metadata, ...annotations(250_000) }, spec: { ...pod.spec, nodeName } };
    await plane.kubectl(["create", "--filename=-"], { input: JSON.stringify(most) });
    await plane.kubectl(["wait", "--for=condition=Ready", "pod/most", "--timeout=180s"]);
    const larger = podOf("larger", {}, { automountServiceAccountToken: false });
    await node.putManifest({ ...larger, metadata: { ...larger.metadata, ...annotations(300_000) } });
    await node.waitForLogLine(
      "manifest refused",
      "larger.yaml:",
      "metadata.annotations: Too long: may not be more than 262144 bytes",
    );
    await plane.kubectl(["delete", "pod", "most", "--timeout=180s"]);
    await node.removeFile("larger.yaml");
    await node.waitUntilEmpty();
  });

  const ends: readonly (readonly [string, (fixture: JoinFixture) => Promise<unknown>, RegExp])[] = [
    [
      "no kubeconfig",
      async () => {},
      /^the kubeconfig cannot be read: \S+kubelet\.conf does not exist; without --kubeconfig the node runs standalone$/,
    ],
    [
      "a folder as its kubeconfig",
      (at) => mkdir(at.path("kubelet.conf")),
      /^the kubeconfig cannot be read: \S+kubelet\.conf is a directory, not a regular file/,
    ],
    [
      "a kubeconfig that is not YAML",
      (at) => at.writeFiles({ "kubelet.conf": "{ apiVersion: v1" }),
      /^the kubeconfig cannot be read: \S+kubelet\.conf:1: not YAML/,
    ],
    [
      "a kubeconfig without a server",
      (at) => at.writeKubeconfig({ server: "" }),
      /^\S+kubelet\.conf:\d+: server is missing$/,
    ],
  ];
  for (const [what, introduce, expectedLog] of ends)
    test(`an agent with ${what} exits with one line and code 1`, async () => {
      await rm(fixture.path("kubelet.conf"), { recursive: true, force: true });
      await introduce(fixture);
      const before = (await fixture.node.log()).length;
      await fixture.node.launchAgent();
      expect(await fixture.node.agent.ended).toBe("exited with code 1");
      const lines = (await fixture.node.log()).slice(before).trim().split("\n");
      expect(lines.filter((line) => !/ (info|warn) /.test(line))).toEqual([expect.stringMatching(expectedLog)]);
      await rm(fixture.path("kubelet.conf"), { recursive: true, force: true });
    });
});
