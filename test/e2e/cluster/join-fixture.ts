import { mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import type { AgentStatus } from "../../../agent/serve/local/agent-status.ts";
import { builtBinary } from "../../bed/agent.ts";
import { until } from "../../bed/poll-until.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import type { CertificateRequest, KeyPair } from "../../upstream/pki.ts";
import { type Relay, startRelay } from "../../upstream/tcp-relay.ts";
import { linesWith, type Node, startNodeWithoutAgent } from "../node.ts";

/** A control plane without controllers, and a node whose agent is told of it by files that a test writes and replaces. */
export interface Joining {
  readonly plane: ControlPlane;
  /** Stands before the API server; `viaRelay` is the address. */
  readonly relay: Relay;
  readonly viaRelay: string;
  readonly node: Node;
  /** Of a file that kubeconfigs may name. */
  path(name: string): string;
  /** Writes files next to the kubeconfig, each whole at once. */
  put(files: Readonly<Record<string, string>>): Promise<void>;
  /** Writes the kubeconfig; it names ca.crt, node.crt and node.key next to it, as far as nothing else is said. */
  configure(cluster?: object, user?: object): Promise<void>;
  /** What the node should have had all along: ca.crt, node.crt and node.key. */
  right(): Readonly<Record<string, string>>;
  /** The same for a certificate that is another one in parts. */
  certificate(request?: Partial<CertificateRequest>, authority?: Pick<ControlPlane["authority"], "issue">): Pair;
  /** Starts an agent that has no Node object yet. Returns once it answers. */
  begin(configuration?: Readonly<Record<string, unknown>>): Promise<void>;
  /** The lines of the log that tell of something wrong with the cluster, of the agent that was started last. */
  told(): Promise<readonly string[]>;
  /** What `berth status` prints, as text or as JSON. */
  status(): Promise<string>;
  statusJson(): Promise<AgentStatus>;
  /** Waits until the API server shows the node Ready. */
  ready(): Promise<void>;
  end(): Promise<void>;
}

type Pair = { readonly "node.crt": string; readonly "node.key": string };

export const nodeName = "node-a";

export async function startJoining(): Promise<Joining> {
  const folder = await mkdtemp(join(tmpdir(), "berth-joining-"));
  const state = join(folder, "plane");
  const plane = await startControlPlane({ stateDir: state, parts: [], say: console.log });
  const kubeconfig = join(folder, "kubelet.conf");
  const node = await startNodeWithoutAgent({ cluster: { kubeconfig, nodeName } }).catch(async (error: unknown) => {
    await plane.stop();
    throw error;
  });
  const relay = await startRelay(Number(new URL(plane.server).port));
  return createJoining(folder, { plane, relay, node }, async () => {
    await node.end();
    await relay.close();
    await plane.stop();
    const left = (await readdir(state, { recursive: true })).filter((name) => !name.endsWith(".log"));
    await rm(folder, { recursive: true });
    if (left.length > 0) throw new Error(`left of the control plane: ${left.join()}`);
  });
}

function createJoining(
  folder: string,
  parts: Pick<Joining, "plane" | "relay" | "node">,
  end: () => Promise<void>,
): Joining {
  const { plane, relay, node } = parts;
  let logged = 0;
  const joining: Joining = {
    ...parts,
    viaRelay: `https://127.0.0.1:${relay.port}`,
    path: (name) => join(folder, name),
    async put(files) {
      for (const [name, text] of Object.entries(files)) {
        await writeFile(join(folder, `.${name}`), text, { mode: 0o600 });
        await rename(join(folder, `.${name}`), join(folder, name));
      }
    },
    async configure(cluster = {}, user) {
      const files = { "client-certificate": "node.crt", "client-key": "node.key" };
      const config = {
        apiVersion: "v1",
        kind: "Config",
        clusters: [{ name: "test", cluster: { server: plane.server, "certificate-authority": "ca.crt", ...cluster } }],
        users: [{ name: "node", user: user ?? files }],
        contexts: [{ name: "test", context: { cluster: "test", user: "node" } }],
        "current-context": "test",
      };
      await joining.put({ "kubelet.conf": JSON.stringify(config, null, 2) });
    },
    right: () => ({ "ca.crt": plane.ca, ...joining.certificate() }),
    certificate(request, authority = plane.authority) {
      const user = { commonName: `system:node:${nodeName}`, organizations: ["system:nodes"] };
      const { cert, key }: KeyPair = authority.issue({ ...user, ...request });
      return { "node.crt": cert, "node.key": key };
    },
    async begin(configuration) {
      logged = (await node.log().catch(() => "")).length;
      await node.startAgent(configuration);
    },
    async told() {
      const lines = linesWith((await node.log()).slice(logged), "API server");
      return lines.filter((line) => / (warn|error) /.test(line));
    },
    status: () => berthStatus(node),
    statusJson: async () => JSON.parse(await berthStatus(node, "--output=json")) as AgentStatus,
    async ready() {
      const argv = ["get", "node", nodeName, "--output=jsonpath={.status.conditions[?(@.type=='Ready')].status}"];
      await until("a node that is Ready", 45_000, async () => (await plane.kubectl(argv).catch(() => "")) === "True");
    },
    end,
  };
  return joining;
}

async function berthStatus({ paths }: Node, ...options: readonly string[]): Promise<string> {
  const argv = ["status", "--root-dir", paths.agentRoot, ...options];
  return (await execa(builtBinary, argv, { timeout: 20_000 })).stdout;
}
