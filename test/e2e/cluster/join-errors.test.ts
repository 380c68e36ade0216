import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, rm } from "node:fs/promises";
import { until } from "../../bed/poll-until.ts";
import { createAuthority } from "../../upstream/pki.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { podOf } from "../manifest.ts";
import { barePod } from "./api-objects.ts";
import { type Joining, nodeName, startJoining } from "./join-fixture.ts";

setDefaultTimeout(90_000);

const skip = skipWithoutPrograms("what keeps a node from its cluster");
/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;
const dayMs = 86_400_000;

interface Wrong {
  readonly what: string;
  /** Brings it about, before an agent begins. */
  readonly bring: (joining: Joining) => Promise<unknown>;
  /** What the log says of it, once. */
  readonly says: RegExp;
  /** Puts it right while the agent runs. */
  readonly heal: (joining: Joining) => Promise<unknown>;
}

const other = createAuthority("another");
/** With everything right but these files. */
const withFiles =
  (files: (joining: Joining) => Readonly<Record<string, string>>): Wrong["bring"] =>
  async (joining) => {
    await joining.configure();
    await joining.put({ ...joining.right(), ...files(joining) });
  };
const withoutFile =
  (name: string): Wrong["bring"] =>
  async (joining) => {
    await withFiles(() => ({}))(joining);
    await rm(joining.path(name));
  };
const withCluster =
  (cluster: object, user?: object): Wrong["bring"] =>
  async (joining) => {
    await joining.put(joining.right());
    await joining.configure(cluster, user);
  };
const rightFiles: Wrong["heal"] = (joining) => joining.put(joining.right());
const rightConfig: Wrong["heal"] = (joining) => joining.configure();

const rows: readonly Wrong[] = [
  {
    what: "a key that is not there",
    bring: withoutFile("node.key"),
    says: /node\.key does not exist: client-key \(\S+kubelet\.conf:\d+\) names it; put it there, readable, or name another/,
    heal: rightFiles,
  },
  {
    what: "a key of another certificate",
    bring: withFiles((joining) => ({ "node.key": joining.certificate()["node.key"] })),
    says: /the key in \S+node\.key does not belong to the certificate in \S+node\.crt: replace the one/,
    heal: rightFiles,
  },
  {
    what: "a certificate that has expired",
    bring: withFiles((joining) =>
      joining.certificate({ validFrom: new Date(Date.now() - 9 * dayMs), validTo: new Date(Date.now() - dayMs) }),
    ),
    says: /does not accept us: our client certificate has expired on 20\S+Z: give this node a new one/,
    heal: rightFiles,
  },
  {
    what: "a certificate of later times, as to a clock that stands at 1970",
    bring: withFiles((joining) =>
      joining.certificate({ validFrom: new Date(Date.now() + dayMs), validTo: new Date(Date.now() + 9 * dayMs) }),
    ),
    says: /our client certificate is valid only from 20\S+Z, and by this machine's clock it is 20\S+: set the clock/,
    heal: rightFiles,
  },
  {
    what: "a certificate of an authority that the API server does not know",
    bring: withFiles((joining) => joining.certificate({}, other)),
    says: /does not accept the client certificate of "system:node:node-a": renew it, or use the kubeconfig of this cluster/,
    heal: rightFiles,
  },
  {
    what: "a certificate of another node",
    bring: withFiles((joining) => joining.certificate({ commonName: "system:node:node-b" })),
    says: /made out to the node \\?"node-b\\?", and this node is called \\?"node-a\\?": give --hostname-override=node-b, or a certificate of system:node:node-a/,
    heal: rightFiles,
  },
  {
    what: "a certificate that lacks the group of nodes",
    bring: withFiles((joining) => joining.certificate({ organizations: [] })),
    says: /our client certificate of system:node:node-a lacks the group of nodes: it has to be issued with O=system:nodes/,
    heal: rightFiles,
  },
  {
    what: "the file of an authority that is not there",
    bring: withoutFile("ca.crt"),
    says: /ca\.crt does not exist: certificate-authority \(\S+kubelet\.conf:\d+\) names it; put it there/,
    heal: rightFiles,
  },
  {
    what: "an authority that is not the API server's",
    bring: withFiles(() => ({ "ca.crt": other.cert })),
    says: /the certificate of 127\.0\.0\.1:\d+ is not from the certificate authority that we were given: correct certificate-authority/,
    heal: rightFiles,
  },
  {
    what: "a name that the API server's certificate does not carry",
    bring: withCluster({ "tls-server-name": "elsewhere.example" }),
    says: /is not made out to elsewhere\.example: use a name that it carries \(.*DNS:kubernetes\.default\.svc.*\) as server/,
    heal: rightConfig,
  },
  {
    what: "an unknown host",
    bring: withCluster({ server: "https://no-such-host.invalid:6443" }),
    says: /(there is no host no-such-host\.invalid: correct the server's address|the host no-such-host\.invalid cannot be looked up)/,
    heal: rightConfig,
  },
  {
    what: "a token that nobody knows",
    async bring(joining) {
      await joining.put({ ...joining.right(), token: "abc.def.ghi" });
      await joining.configure({}, { tokenFile: "token" });
    },
    says: /does not accept our token: renew it, or use the kubeconfig of this cluster/,
    heal: async (joining) => joining.put({ token: await joining.plane.kubectl(["create", "token", "node"]) }),
  },
  {
    what: "no credentials at all",
    bring: withCluster({}, {}),
    says: /is forbidden: User \\?"system:anonymous\\?" .*; the kubeconfig's user has no credentials: give it a client certificate, a token or exec/,
    heal: rightConfig,
  },
  {
    what: "an API server that does not run",
    async bring(joining) {
      await withCluster({})(joining);
      await joining.plane.stopApiServer();
    },
    says: /nobody listens at 127\.0\.0\.1:\d+: is the API server running, and is this its port\?/,
    heal: (joining) => joining.plane.startApiServer(),
  },
  {
    what: "an API server that never says a word",
    async bring(joining) {
      await withCluster({ server: joining.viaRelay })(joining);
      joining.relay.stall();
    },
    says: /127\.0\.0\.1:\d+ does not answer: is the address right, and does a firewall lie in between\?/,
    heal: async (joining) => joining.relay.resume(),
  },
];

/** The time of the last error that is not over. */
async function lastAttempt({ statusJson }: Joining): Promise<string | undefined> {
  const { cluster } = await statusJson();
  return cluster?.connection.state === "away" ? cluster.connection.lastError.at : cluster?.nodeStatus.error?.at;
}

describe.skipIf(skip !== undefined)("bad input:", () => {
  let joining: Joining;
  beforeAll(async () => {
    joining = await startJoining();
    const { kubectl } = joining.plane;
    for (const name of ["default", "node"]) await kubectl(["create", "serviceaccount", name]);
    await kubectl([
      "create",
      "clusterrolebinding",
      "node",
      "--clusterrole=cluster-admin",
      "--serviceaccount=default:node",
    ]);
  }, BUILD_MS);
  afterAll(() => joining?.end());
  afterEach(async () => {
    await joining.node.agent.stop();
    await joining.plane.kubectl(["delete", "node", nodeName, "--ignore-not-found"]);
  });

  for (const { what, bring, says, heal } of rows)
    test(`a node that is kept from its cluster by ${what} says so once, in the log and by berth status, and joins when that is put right`, async () => {
      await bring(joining);
      await joining.begin();
      const { pid } = joining.node.agent;
      const saying = async () => (await joining.told()).filter((line) => says.test(line));
      await until(`a line like ${says}`, 20_000, async () => (await saying()).length > 0);
      // It goes on trying, and says nothing more: each room that was refused has its own line, and only one.
      const first = await lastAttempt(joining);
      await until("a later attempt", 20_000, async () => (await lastAttempt(joining)) !== first);
      const told = (await saying()).map((line) => line.replace(/^\S+ /, ""));
      expect(told).toEqual([...new Set(told)]);
      const status = await joining.status();
      expect(status).toMatch(says);
      expect(status).toMatch(/trying again/);
      expect(status).toMatch(/^node status +not reported yet/m);

      await heal(joining);
      await joining.ready();
      expect([joining.node.agent.isRunning, joining.node.agent.pid]).toEqual([true, pid]);
      await until("what is over", 45_000, async () => !/trying again|not \w+ yet/.test(await joining.status()));
    });

  test("a pod with the most of annotations that the API server takes runs, and a static one with more is refused", async () => {
    const { node, plane } = joining;
    await joining.put(joining.right());
    await joining.configure();
    await joining.begin();
    await joining.ready();
    const annotations = (bytes: number) => ({ annotations: { "example.com/large": "x".repeat(bytes) } });
    const pod = barePod("most");
    const most = { ...pod, metadata: { ...pod.metadata, ...annotations(250_000) }, spec: { ...pod.spec, nodeName } };
    await plane.kubectl(["create", "--filename=-"], { input: JSON.stringify(most) });
    await plane.kubectl(["wait", "--for=condition=Ready", "pod/most", "--timeout=30s"]);
    const larger = podOf("larger", {}, { automountServiceAccountToken: false });
    await node.put({ ...larger, metadata: { ...larger.metadata, ...annotations(300_000) } });
    await node.logged(
      "manifest refused",
      "larger.yaml:",
      "metadata.annotations: Too long: may not be more than 262144 bytes",
    );
    await plane.kubectl(["delete", "pod", "most", "--timeout=30s"]);
    await node.removeFile("larger.yaml");
    await node.empty();
  });

  const ends: readonly (readonly [string, (joining: Joining) => Promise<unknown>, RegExp])[] = [
    [
      "no kubeconfig",
      async () => {},
      /^the kubeconfig cannot be read: \S+kubelet\.conf does not exist; without --kubeconfig the node stands alone$/,
    ],
    [
      "a folder in the place of its kubeconfig",
      (at) => mkdir(at.path("kubelet.conf")),
      /^the kubeconfig cannot be read: \S+kubelet\.conf is a directory, not a regular file/,
    ],
    [
      "a kubeconfig that is no YAML",
      (at) => at.put({ "kubelet.conf": "{ apiVersion: v1" }),
      /^the kubeconfig cannot be read: \S+kubelet\.conf:1: not YAML/,
    ],
    [
      "a kubeconfig without a server",
      (at) => at.configure({ server: "" }),
      /^\S+kubelet\.conf:\d+: server is missing$/,
    ],
  ];
  for (const [what, bring, says] of ends)
    test(`an agent with ${what} ends with one line and code 1`, async () => {
      await rm(joining.path("kubelet.conf"), { recursive: true, force: true });
      await bring(joining);
      const before = (await joining.node.log()).length;
      await joining.node.launchAgent();
      expect(await joining.node.agent.ended).toBe("exited with code 1");
      const lines = (await joining.node.log()).slice(before).trim().split("\n");
      expect(lines.filter((line) => !/ (info|warn) /.test(line))).toEqual([expect.stringMatching(says)]);
      await rm(joining.path("kubelet.conf"), { recursive: true, force: true });
    });
});
