import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { type BedRecord, bedPaths, claim, findAbandoned } from "../bed/cleanup/bed-record.ts";
import type { Leftovers } from "../bed/cleanup/bed-resources.ts";
import { cleanUp } from "../bed/cleanup/clean-up.ts";
import { type Suite, unpackSuite } from "../bed/packages.ts";
import { pickPorts } from "../bed/ports.ts";
import {
  apiServerArgs,
  type ControlPlanePlan,
  controlPlaneFiles,
  etcdArgs,
  type Part,
  partArgs,
  serverHosts,
} from "./control-plane-args.ts";
import { answers, ask, type Daemon, keepRunning, startDaemon, type TlsOptions } from "./daemon.ts";
import { type Authority, createAuthority, createSigningKey, type KeyPair } from "./pki.ts";
import { findPrograms } from "./programs.ts";
import { type Relay, startRelay } from "./tcp-relay.ts";

export interface ControlPlaneOptions {
  /** The folder that holds everything the control plane writes. Made if absent; one control plane each, and no containerd. */
  readonly stateDir: string;
  readonly say?: (line: string) => void;
  /** What runs beside etcd and the API server; both if not given. */
  readonly parts?: readonly Part[];
  /** More flags, such as `--goaway-chance=0.02` for the API server. They win over ours. */
  readonly flags?: Readonly<Partial<Record<"kube-apiserver" | Part, readonly string[]>>>;
  /** Puts a {@link Relay} before the API server, with so many milliseconds in each direction. Its own programs pass it by. */
  readonly latency?: number;
}

export type KubectlVersion = "1.32" | "1.36";

/** Debian's releases with a kubectl of these versions. */
const kubectlSuites: Readonly<Record<KubectlVersion, Suite>> = { "1.32": "trixie", "1.36": "forky" };

export interface KubectlOptions {
  /** 1.36 if not given. */
  readonly version?: KubectlVersion;
  /** As whom; as an administrator if not given. */
  readonly kubeconfig?: string;
  /** Its standard input, for `-f -`. */
  readonly input?: string;
}

/** An upstream control plane without nodes: etcd, kube-apiserver, and what else was asked for. */
export interface ControlPlane {
  /** `https://127.0.0.1:PORT`, the relay's if there is one. Stays the same over restarts. */
  readonly server: string;
  /** The certificate of the authority that all sides trust, as PEM. */
  readonly ca: string;
  /** Issues certificates that the API server knows its clients by. */
  readonly authority: Authority;
  /** The kubeconfig file of an administrator. */
  readonly adminKubeconfig: string;
  readonly relay: Relay | undefined;
  readonly record: BedRecord;
  /** The process id of the API server, 0 while it does not run. */
  readonly apiServerPid: number;
  /** The file that a program's output goes to. */
  logFile(program: "etcd" | "kube-apiserver" | Part): string;
  /**
   * Makes the kubeconfig file of a node: of the group system:nodes, by the name system:node:NAME. Returns its path. `way` is the
   * address of whoever stands before the API server, if somebody does.
   */
  nodeKubeconfig(nodeName: string, way?: string): Promise<string>;
  /** Makes a kubeconfig file for anyone, with what is to be presented, and returns its path. */
  kubeconfig(user: string, identity: KeyPair | { readonly token: string }): Promise<string>;
  /** Runs kubectl and returns what it prints. Rejects with its words if it fails. */
  kubectl(args: readonly string[], options?: KubectlOptions): Promise<string>;
  /** Kills the API server, so that every connection to it breaks; with SIGTERM it takes leave, for up to a minute. */
  stopApiServer(signal?: "SIGKILL" | "SIGTERM"): Promise<void>;
  /** Starts the API server again at the same address, and returns once it is ready. */
  startApiServer(): Promise<void>;
  /** Kills etcd alone: the API server stays, and answers with errors. */
  stopEtcd(): Promise<void>;
  /** Starts etcd again with what it had, and returns once it answers. */
  startEtcd(): Promise<void>;
  /** Kills and starts the API server, on request with a new certificate of the same authority. */
  restartApiServer(change?: { readonly newCertificate?: boolean }): Promise<void>;
  /**
   * Takes away from etcd what was before the last change, so that whoever resumes a watch from there gets 410 where the API
   * server was started with `--watch-cache=false`. Its watch cache, which else answers instead of etcd, forgets all of it by
   * a restart alone.
   */
  compactEtcd(): Promise<void>;
  /** Ends everything and removes every trace but the logs. Returns what was there to remove. */
  stop(): Promise<Leftovers>;
}

/**
 * Starts a private control plane below `stateDir` and returns once all of it is ready. What an earlier owner of the folder
 * left behind is removed first. Throws with one clear line where the programs cannot be had, if a living process uses the
 * folder, or with the end of its log if a program does not become ready.
 */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { stateDir, say, parts = ["kube-controller-manager", "kube-scheduler"] } = options;
  const programs = await findPrograms(["etcd", "kube-apiserver", ...parts], say);
  const abandoned = await findAbandoned(stateDir);
  if (abandoned !== undefined) await cleanUp(abandoned);
  const record = await claim(stateDir);
  const running: Pick<Daemon, "end">[] = [];
  const stop = async () => {
    // Clients before servers, so that none of them waits for what is already gone. Nothing of it is to be kept.
    for (const daemon of running.toReversed()) await daemon.end("SIGKILL");
    return await cleanUp(record);
  };
  try {
    const site = await prepare(record, parts, programs);
    const stores = await launch(site, { ...options, parts }, running);
    const relay =
      options.latency === undefined ? undefined : await startRelay(site.plan.ports.apiServer, options.latency);
    return await open(site, stores, relay, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

/** What is fixed before the first process begins. */
interface Site {
  readonly record: BedRecord;
  /** The folder of the programs. */
  readonly programs: string;
  readonly plan: ControlPlanePlan;
  readonly authority: Authority;
  readonly administrator: KeyPair;
  /** The API server's own address. */
  readonly server: string;
  /** How to ask it. */
  readonly tls: TlsOptions;
}

async function prepare(record: BedRecord, parts: readonly Part[], programs: string): Promise<Site> {
  const paths = bedPaths(record.stateDir);
  const files = controlPlaneFiles(paths.controlPlane, paths.controlPlaneCerts, paths.etcdData);
  const plan = { files, ports: await choosePorts() };
  const server = `https://127.0.0.1:${plan.ports.apiServer}`;
  const authority = createAuthority("berth.test");
  const administrator = authority.issue({ commonName: "administrator", organizations: ["system:masters"] });
  await writeCertificates(plan, authority);
  for (const part of parts) {
    const identity = authority.issue({ commonName: `system:${part}` });
    await writeFile(files.kubeconfig(part), kubeconfig(server, authority.cert, identity), { mode: 0o600 });
  }
  return { record, programs, plan, authority, administrator, server, tls: { ca: authority.cert, ...administrator } };
}

const logFile = ({ record }: Site, program: string) => join(record.stateDir, `${program}.log`);

/** A daemon that can be ended and started again. */
interface Restartable {
  readonly daemon: Daemon;
  /** Starts it unless it runs, and returns once it answers. */
  start(): Promise<void>;
}

interface Stores {
  readonly etcd: Restartable;
  readonly apiServer: Restartable;
}

/** Starts everything. `running` is told of what there is to end, in the order in which it began. */
async function launch(
  site: Site,
  { parts, flags = {} }: ControlPlaneOptions & { readonly parts: readonly Part[] },
  running: Pick<Daemon, "end">[],
): Promise<Stores> {
  const { plan, server, tls, programs } = site;
  const start = (program: string, args: readonly string[]) =>
    startDaemon(join(programs, program), args, logFile(site, program));
  const etcd = await restartable(async () => {
    const daemon = start("etcd", etcdArgs(plan));
    await answers(daemon, `http://127.0.0.1:${plan.ports.etcd}/readyz`);
    return daemon;
  });
  const apiServer = await restartable(async () => {
    const daemon = start("kube-apiserver", [...apiServerArgs(plan), ...(flags["kube-apiserver"] ?? [])]);
    await answers(daemon, `${server}/readyz`, tls);
    return daemon;
  });
  for (const each of [etcd, apiServer]) running.push({ end: (signal) => each.daemon.end(signal) });
  await Promise.all(
    parts.map(async (part) => {
      const args = [...partArgs(part, plan), ...(flags[part] ?? [])];
      running.push(await startPart(() => start(part, args), plan.ports[part], tls));
    }),
  );
  // The controllers begin one after the other. With this account there, a pod of the namespace is accepted.
  if (parts.includes("kube-controller-manager"))
    await answers(apiServer.daemon, `${server}/api/v1/namespaces/default/serviceaccounts/default`, tls);
  return { etcd, apiServer };
}

async function restartable(begin: () => Promise<Daemon>): Promise<Restartable> {
  let daemon = await begin();
  return {
    get daemon() {
      return daemon;
    },
    async start() {
      if (!daemon.isRunning) daemon = await begin();
    },
  };
}

async function open(
  site: Site,
  { etcd, apiServer }: Stores,
  relay: Relay | undefined,
  stop: () => Promise<Leftovers>,
): Promise<ControlPlane> {
  const { plan, authority, record } = site;
  const { files, ports } = plan;
  const server = relay === undefined ? site.server : `https://127.0.0.1:${relay.port}`;
  const writeKubeconfig = async (user: string, identity: KeyPair | { readonly token: string }, way = server) => {
    const path = files.kubeconfig(user.replaceAll(":", "-"));
    await writeFile(path, kubeconfig(way, authority.cert, identity), { mode: 0o600 });
    return path;
  };
  const adminKubeconfig = await writeKubeconfig("administrator", site.administrator);
  return {
    server,
    ca: authority.cert,
    authority,
    adminKubeconfig,
    relay,
    record,
    get apiServerPid() {
      return apiServer.daemon.isRunning ? apiServer.daemon.pid : 0;
    },
    logFile: (program) => logFile(site, program),
    nodeKubeconfig(nodeName, way) {
      const user = nodeUser(nodeName);
      return writeKubeconfig(user.commonName, authority.issue(user), way);
    },
    kubeconfig: (user, identity) => writeKubeconfig(user, identity),
    kubectl: (args, options) => kubectl(args, { kubeconfig: adminKubeconfig, ...options }, files.kubectlCache),
    stopApiServer: (signal = "SIGKILL") => apiServer.daemon.end(signal),
    startApiServer: () => apiServer.start(),
    stopEtcd: () => etcd.daemon.end("SIGKILL"),
    startEtcd: () => etcd.start(),
    async restartApiServer({ newCertificate = false } = {}) {
      await apiServer.daemon.end("SIGKILL");
      if (newCertificate) await writeServerCertificate(plan, authority);
      await apiServer.start();
    },
    compactEtcd: () => compact(`http://127.0.0.1:${ports.etcd}`),
    async stop() {
      await relay?.close();
      return await stop();
    },
  };
}

/** Who a node is to the API server. */
export const nodeUser = (nodeName: string) => ({
  commonName: `system:node:${nodeName}`,
  organizations: ["system:nodes"],
});

async function choosePorts(): Promise<ControlPlanePlan["ports"]> {
  const [etcd = 0, etcdPeer = 0, apiServer = 0, controllers = 0, scheduler = 0] = await pickPorts(5);
  return { etcd, etcdPeer, apiServer, "kube-controller-manager": controllers, "kube-scheduler": scheduler };
}

/** Everything below `certs`. */
async function writeCertificates(plan: ControlPlanePlan, authority: Authority): Promise<void> {
  const { files } = plan;
  await mkdir(files.certs, { recursive: true, mode: 0o700 });
  const kubeletClient = authority.issue({ commonName: "kube-apiserver", organizations: ["system:masters"] });
  const contents = {
    [files.ca]: authority.cert,
    [files.caKey]: authority.key,
    [files.kubeletClientCert]: kubeletClient.cert,
    [files.kubeletClientKey]: kubeletClient.key,
    [files.serviceAccountKey]: createSigningKey(),
  };
  for (const [path, content] of Object.entries(contents)) await writeFile(path, content, { mode: 0o600 });
  await writeServerCertificate(plan, authority);
}

async function writeServerCertificate({ files }: ControlPlanePlan, authority: Authority): Promise<void> {
  const { cert, key } = authority.issue({ commonName: "kube-apiserver", hosts: serverHosts });
  await writeFile(files.serverCert, cert);
  await writeFile(files.serverKey, key, { mode: 0o600 });
}

/** Both parts end by themselves if the API server is away while they begin. */
async function startPart(start: () => Daemon, port: number, tls: TlsOptions): Promise<Pick<Daemon, "end">> {
  const daemon = start();
  await answers(daemon, `https://127.0.0.1:${port}/healthz`, tls);
  return keepRunning(daemon, start);
}

/** A kubeconfig with everything inside it, as JSON, which is YAML. */
function kubeconfig(server: string, ca: string, identity: KeyPair | { readonly token: string }): string {
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  const user =
    "token" in identity
      ? { token: identity.token }
      : { "client-certificate-data": base64(identity.cert), "client-key-data": base64(identity.key) };
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "test", cluster: { server, "certificate-authority-data": base64(ca) } }],
    users: [{ name: "user", user }],
    contexts: [{ name: "test", context: { cluster: "test", user: "user" } }],
    "current-context": "test",
  };
  return `${JSON.stringify(config, null, 2)}\n`;
}

async function kubectl(
  args: readonly string[],
  { version = "1.36", kubeconfig: path = "", input = "" }: KubectlOptions,
  cache: string,
): Promise<string> {
  const { root } = await unpackSuite(kubectlSuites[version]);
  const own = [`--kubeconfig=${path}`, `--cache-dir=${cache}`];
  const { stdout } = await execa(join(root, "usr/bin/kubectl"), [...own, ...args], { input });
  return stdout;
}

/** Asks etcd by its JSON gateway where it stands, and compacts up to there. */
async function compact(etcd: string): Promise<void> {
  const call = async (path: string, body: unknown) => {
    const { status, text } = await ask(`${etcd}${path}`, { body });
    if (status !== 200) throw new Error(`etcd answered ${path} with ${status}: ${text}`);
    return JSON.parse(text) as { readonly header: { readonly revision: string } };
  };
  const { header } = await call("/v3/maintenance/status", {});
  await call("/v3/kv/compaction", { revision: header.revision, physical: true });
}
