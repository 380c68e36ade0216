import { mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import type { AgentStatus } from "../../../agent/serve/local/agent-status.ts";
import { builtBinary } from "../../bed/agent.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import type { CertificateRequest, KeyPair } from "../../upstream/pki.ts";
import { type Relay, startRelay } from "../../upstream/tcp-relay.ts";
import { linesContaining, startNodeWithoutAgent, type TestNode } from "../node.ts";

/** A control plane without controllers, and a node whose kubeconfig and credentials a test writes and replaces. */
export interface JoinFixture {
  readonly plane: ControlPlane;
  /** A relay to the API server; `relayUrl` is its URL. */
  readonly relay: Relay;
  readonly relayUrl: string;
  readonly node: TestNode;
  /** The path of a file next to the kubeconfig. */
  path(name: string): string;
  /** Writes files next to the kubeconfig, each atomically. */
  writeFiles(files: Readonly<Record<string, string>>): Promise<void>;
  /** Writes the kubeconfig. By default it names ca.crt, node.crt and node.key next to it. */
  writeKubeconfig(cluster?: object, user?: object): Promise<void>;
  /** Correct files: ca.crt, node.crt and node.key. */
  correctFiles(): Readonly<Record<string, string>>;
  /** A client certificate and key; `request` and `authority` override parts of it. */
  certificate(
    request?: Partial<CertificateRequest>,
    authority?: Pick<ControlPlane["authority"], "issue">,
  ): CertificateFiles;
  /** Starts an agent that may not have a Node object yet. Returns once it answers on its socket. */
  startAgent(configuration?: Readonly<Record<string, unknown>>): Promise<void>;
  /** The last agent's warnings and errors about the API server. */
  clusterProblems(): Promise<readonly string[]>;
  /** The output of `berth status`. */
  status(): Promise<string>;
  statusJson(): Promise<AgentStatus>;
  /** Waits until the API server shows the node Ready. */
  waitUntilReady(): Promise<void>;
  end(): Promise<void>;
}

type CertificateFiles = { readonly "node.crt": string; readonly "node.key": string };

export const nodeName = "node-a";

export async function startJoinFixture(): Promise<JoinFixture> {
  const folder = await mkdtemp(join(tmpdir(), "berth-joining-"));
  const state = join(folder, "plane");
  const plane = await startControlPlane({ stateDir: state, components: [], print: console.log });
  const kubeconfig = join(folder, "kubelet.conf");
  const node = await startNodeWithoutAgent({ cluster: { kubeconfig, nodeName } }).catch(async (error: unknown) => {
    await plane.stop();
    throw error;
  });
  const relay = await startRelay(Number(new URL(plane.server).port));
  return createJoinFixture(folder, { plane, relay, node }, async () => {
    await node.tearDown();
    await relay.close();
    await plane.stop();
    const left = (await readdir(state, { recursive: true })).filter((name) => !name.endsWith(".log"));
    await rm(folder, { recursive: true });
    if (left.length > 0) throw new Error(`left of the control plane: ${left.join()}`);
  });
}

function createJoinFixture(
  folder: string,
  parts: Pick<JoinFixture, "plane" | "relay" | "node">,
  end: () => Promise<void>,
): JoinFixture {
  const { plane, relay, node } = parts;
  let logged = 0;
  const fixture: JoinFixture = {
    ...parts,
    relayUrl: `https://127.0.0.1:${relay.port}`,
    path: (name) => join(folder, name),
    async writeFiles(files) {
      for (const [name, text] of Object.entries(files)) {
        await writeFile(join(folder, `.${name}`), text, { mode: 0o600 });
        await rename(join(folder, `.${name}`), join(folder, name));
      }
    },
    async writeKubeconfig(cluster = {}, user) {
      const files = { "client-certificate": "node.crt", "client-key": "node.key" };
      const config = {
        apiVersion: "v1",
        kind: "Config",
        clusters: [{ name: "test", cluster: { server: plane.server, "certificate-authority": "ca.crt", ...cluster } }],
        users: [{ name: "node", user: user ?? files }],
        contexts: [{ name: "test", context: { cluster: "test", user: "node" } }],
        "current-context": "test",
      };
      await fixture.writeFiles({ "kubelet.conf": JSON.stringify(config, null, 2) });
    },
    correctFiles: () => ({ "ca.crt": plane.ca, ...fixture.certificate() }),
    certificate(request, authority = plane.authority) {
      const user = { commonName: `system:node:${nodeName}`, organizations: ["system:nodes"] };
      const { cert, key }: KeyPair = authority.issue({ ...user, ...request });
      return { "node.crt": cert, "node.key": key };
    },
    async startAgent(configuration) {
      // Before the first start there is no log.
      logged = (await node.log().catch(() => "")).length;
      await node.startAgent(configuration);
    },
    async clusterProblems() {
      const lines = linesContaining((await node.log()).slice(logged), "API server");
      return lines.filter((line) => / (warn|error) /.test(line));
    },
    status: () => berthStatus(node),
    statusJson: async () => JSON.parse(await berthStatus(node, "--output=json")) as AgentStatus,
    async waitUntilReady() {
      const argv = ["get", "node", nodeName, "--output=jsonpath={.status.conditions[?(@.type=='Ready')].status}"];
      await pollUntil(
        "a node that is Ready",
        45_000,
        // The node does not exist at first; the timeout reports any other failure.
        async () => (await plane.kubectl(argv).catch(() => "")) === "True",
      );
    },
    end,
  };
  return fixture;
}

async function berthStatus({ paths }: TestNode, ...options: readonly string[]): Promise<string> {
  const argv = ["status", "--root-dir", paths.agentRoot, ...options];
  return (await execa(builtBinary, argv, { timeout: 60_000 })).stdout;
}
