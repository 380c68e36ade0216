import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { type BedRecord, bedPaths, claimStateDir, findAbandonedBed } from "../bed/cleanup/bed-record.ts";
import type { BedResources } from "../bed/cleanup/bed-resources.ts";
import { cleanUp } from "../bed/cleanup/clean-up.ts";
import { type PackageSet, unpackPackages } from "../bed/packages.ts";
import { pickPorts } from "../bed/ports.ts";
import {
  bootstrappedEtcdFolder,
  copyBootstrappedEtcd,
  removeOnFailure,
  storeBootstrappedEtcd,
} from "./bootstrapped-etcd.ts";
import {
  apiServerArgs,
  type ControlPlaneComponent,
  type ControlPlanePlan,
  componentArgs,
  controlPlaneFiles,
  etcdArgs,
  serverHosts,
} from "./control-plane-args.ts";
import { type Daemon, restartOnExit, startDaemon, type TlsOptions, waitUntilReady } from "./daemon.ts";
import { compactStore, deleteKey } from "./etcd-client.ts";
import { kubeconfig } from "./kubeconfig.ts";
import { type CertificateAuthority, createCertificateAuthority, createSigningKey, type KeyPair } from "./pki.ts";
import { ensurePrograms } from "./programs.ts";
import { type Relay, startRelay } from "./tcp-relay.ts";

export interface ControlPlaneOptions {
  /**
   * The folder for all files of the control plane, created if absent. Used by one control plane and by no containerd.
   */
  readonly stateDir: string;
  readonly print?: (line: string) => void;
  /** The components to run beside etcd and the API server; default: both. */
  readonly components?: readonly ControlPlaneComponent[];
  /**
   * Additional flags, such as `--goaway-chance=0.02` for the API server. They override ours, except that lists are joined:
   * `--controllers`, `--disable-admission-plugins`, `--runtime-config`.
   */
  readonly flags?: Readonly<Partial<Record<"kube-apiserver" | ControlPlaneComponent, readonly string[]>>>;
  /**
   * Puts a {@link Relay} in front of the API server, with this latency in milliseconds in each direction. The control
   * plane's own components bypass it.
   */
  readonly latency?: number;
}

export type KubectlVersion = "1.32" | "1.36";

/** The Debian release that has each version of kubectl. */
const kubectlSuites: Readonly<Record<KubectlVersion, PackageSet>> = { "1.32": "trixie", "1.36": "forky" };

/** The path of a version's program. Downloads its package the first time. */
export async function kubectlProgram(version: KubectlVersion): Promise<string> {
  const { root } = await unpackPackages(kubectlSuites[version]);
  return join(root, "usr/bin/kubectl");
}

export interface KubectlOptions {
  /** Default: 1.36. */
  readonly version?: KubectlVersion;
  /** Path of the kubeconfig file; default: the administrator's. */
  readonly kubeconfig?: string;
  /** Standard input of kubectl, for `-f -`. */
  readonly input?: string;
}

/** A running upstream control plane without nodes: etcd, kube-apiserver and the requested components. */
export interface ControlPlane {
  /** `https://127.0.0.1:PORT`; the relay's address if there is one. Does not change over restarts. */
  readonly server: string;
  /** The CA certificate that servers and clients trust, as PEM. */
  readonly ca: string;
  /** Issues client certificates that the API server accepts. */
  readonly authority: CertificateAuthority;
  /** The kubeconfig file of an administrator. */
  readonly adminKubeconfig: string;
  readonly relay: Relay | undefined;
  readonly record: BedRecord;
  /** The process id of the API server, 0 while it does not run. */
  readonly apiServerPid: number;
  /** The log file of a program. */
  logFile(program: "etcd" | "kube-apiserver" | ControlPlaneComponent): string;
  /**
   * Creates the kubeconfig file of a node (user `system:node:NAME`, group `system:nodes`) and returns its path.
   * `serverUrl` is the address of a proxy in front of the API server, if the node should use one.
   */
  nodeKubeconfig(nodeName: string, serverUrl?: string): Promise<string>;
  /** Creates a kubeconfig file with the given credentials and returns its path. */
  kubeconfig(user: string, identity: KeyPair | { readonly token: string }): Promise<string>;
  /** Runs kubectl and returns its output. Rejects with its error output if it fails. */
  kubectl(args: readonly string[], options?: KubectlOptions): Promise<string>;
  /**
   * Stops the API server: by default with SIGKILL, which breaks every connection; with SIGTERM it shuts down gracefully,
   * which takes up to a minute.
   */
  stopApiServer(signal?: "SIGKILL" | "SIGTERM"): Promise<void>;
  /** Starts the API server again at the same address and returns once it is ready. */
  startApiServer(): Promise<void>;
  /** Kills etcd only: the API server stays up and answers with errors. */
  stopEtcd(): Promise<void>;
  /** Starts etcd again with its data and returns once it answers. */
  startEtcd(): Promise<void>;
  /** Kills the API server and starts it again, optionally with a new certificate of the same CA. */
  restartApiServer(change?: { readonly newCertificate?: boolean }): Promise<void>;
  /**
   * Compacts etcd up to its current revision. A watch that resumes from an older revision then gets 410, provided that
   * the API server runs with `--watch-cache=false`: otherwise its watch cache answers, which only a restart empties.
   */
  compactEtcd(): Promise<void>;
  /** Stops all programs and removes everything except the logs. Returns what it had to remove. */
  stop(): Promise<BedResources>;
}

/**
 * Starts a private control plane below `stateDir` and returns once all of it is ready. First removes the leftovers of
 * an earlier owner of the folder. Throws with one line if the programs are unavailable or a live process uses the
 * folder, and with the end of the log if a program does not become ready.
 */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { stateDir, print, components = ["kube-controller-manager", "kube-scheduler"] } = options;
  const programs = await ensurePrograms(["etcd", "kube-apiserver", ...components], print);
  const abandoned = await findAbandonedBed(stateDir);
  if (abandoned !== undefined) await cleanUp(abandoned);
  const record = await claimStateDir(stateDir);
  const running: Pick<Daemon, "end">[] = [];
  const stop = async () => {
    // Clients before servers, so that no client waits for a server that is gone. SIGKILL, because no state is kept.
    for (const daemon of running.toReversed()) await daemon.end("SIGKILL");
    return await cleanUp(record);
  };
  try {
    const setup = await prepare(record, components, programs);
    const coreServers = await launch(setup, { ...options, components }, running);
    const relay =
      options.latency === undefined ? undefined : await startRelay(setup.plan.ports.apiServer, options.latency);
    return await createHandle(setup, coreServers, relay, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Everything that is fixed before the first process starts. */
interface ControlPlaneSetup {
  readonly record: BedRecord;
  /** The folder with the programs. */
  readonly programs: string;
  readonly plan: ControlPlanePlan;
  readonly authority: CertificateAuthority;
  readonly administrator: KeyPair;
  /** The API server's address, without a relay. */
  readonly server: string;
  /** The credentials for requests of the test bed to it. */
  readonly tls: TlsOptions;
}

async function prepare(
  record: BedRecord,
  components: readonly ControlPlaneComponent[],
  programs: string,
): Promise<ControlPlaneSetup> {
  const paths = bedPaths(record.stateDir);
  const files = controlPlaneFiles(paths.controlPlane, paths.controlPlaneCerts, paths.etcdData);
  const plan = { files, ports: await choosePorts() };
  const server = `https://127.0.0.1:${plan.ports.apiServer}`;
  const authority = createCertificateAuthority("berth.test");
  const administrator = authority.issue({ commonName: "administrator", organizations: ["system:masters"] });
  await writeCertificates(plan, authority);
  for (const component of components) {
    const identity = authority.issue({ commonName: `system:${component}` });
    await writeFile(files.kubeconfig(component), kubeconfig(server, authority.cert, identity), { mode: 0o600 });
  }
  return { record, programs, plan, authority, administrator, server, tls: { ca: authority.cert, ...administrator } };
}

const logFile = ({ record }: ControlPlaneSetup, program: string) => join(record.stateDir, `${program}.log`);

/** A daemon that can be stopped and started again. */
interface Restartable {
  readonly daemon: Daemon;
  /** Starts the daemon unless it runs, and returns once it answers. */
  start(): Promise<void>;
}

interface CoreServers {
  readonly etcd: Restartable;
  readonly apiServer: Restartable;
}

/** Starts all programs. Appends each to `running` in the order of their start, for the caller to stop them. */
async function launch(
  setup: ControlPlaneSetup,
  { components, flags = {} }: ControlPlaneOptions & { readonly components: readonly ControlPlaneComponent[] },
  running: Pick<Daemon, "end">[],
): Promise<CoreServers> {
  const { plan, server, tls } = setup;
  const { etcd, apiServer } = await startCoreServers(setup, flags["kube-apiserver"], running);
  await Promise.all(
    components.map(async (component) => {
      const args = [...componentArgs(component, plan), ...(flags[component] ?? [])];
      const start = () => startProgram(setup, component, args);
      running.push(await startComponent(start, plan.ports[component], tls));
    }),
  );
  // The controllers start one after the other. Once this account exists, the namespace accepts pods.
  if (components.includes("kube-controller-manager"))
    await waitUntilReady(apiServer.daemon, `${server}/api/v1/namespaces/default/serviceaccounts/default`, tls);
  return { etcd, apiServer };
}

/**
 * Starts etcd and the API server, if possible with what an earlier API server has created, and adds each to `running`.
 * `flags` are additional ones of the API server. Other flags may create other objects, so such an API server creates its own.
 */
async function startCoreServers(
  setup: ControlPlaneSetup,
  flags: readonly string[] | undefined,
  running: Pick<Daemon, "end">[],
): Promise<CoreServers> {
  const { plan, server, tls, programs } = setup;
  const bootstrapped = flags === undefined ? await bootstrappedEtcdFolder(programs) : undefined;
  const isCopied = bootstrapped !== undefined && (await copyBootstrappedEtcd(bootstrapped, plan.files.etcdData));
  const start = async (): Promise<CoreServers> => {
    const etcd = await restartable(async () => {
      const daemon = startProgram(setup, "etcd", etcdArgs(plan));
      await waitUntilReady(daemon, `http://127.0.0.1:${plan.ports.etcd}/readyz`);
      return daemon;
    });
    running.push({ end: (signal) => etcd.daemon.end(signal) });
    const apiServer = await restartable(async () => {
      const args = [...apiServerArgs(plan), ...(flags ?? [])];
      const daemon = startProgram(setup, "kube-apiserver", args, rareGarbageCollection);
      await waitUntilReady(daemon, `${server}/readyz`, tls);
      return daemon;
    });
    running.push({ end: (signal) => apiServer.daemon.end(signal) });
    return { etcd, apiServer };
  };
  const servers = isCopied ? await removeOnFailure(bootstrapped, start) : await start();
  if (bootstrapped !== undefined && !isCopied) await keepBootstrappedEtcd(servers, plan, bootstrapped);
  return servers;
}

const startProgram = (
  setup: ControlPlaneSetup,
  program: string,
  args: readonly string[],
  env?: Readonly<Record<string, string>>,
) => startDaemon(join(setup.programs, program), args, logFile(setup, program), env);

/** At its start the API server spends a sixth of its CPU time in garbage collection. */
const rareGarbageCollection = { GOGC: "400" };

/**
 * Stores etcd's data for later starts, without the client CA of this control plane (ConfigMap
 * extension-apiserver-authentication): each API server writes its own.
 */
async function keepBootstrappedEtcd(
  { etcd, apiServer }: CoreServers,
  { files, ports }: ControlPlanePlan,
  folder: string,
): Promise<void> {
  await apiServer.daemon.end("SIGKILL");
  const key = "/registry/configmaps/kube-system/extension-apiserver-authentication";
  await deleteKey(`http://127.0.0.1:${ports.etcd}`, key);
  await etcd.daemon.end("SIGTERM");
  await storeBootstrappedEtcd(files.etcdData, folder);
  await etcd.start();
  await apiServer.start();
}

async function restartable(launchDaemon: () => Promise<Daemon>): Promise<Restartable> {
  let daemon = await launchDaemon();
  return {
    get daemon() {
      return daemon;
    },
    async start() {
      if (!daemon.isRunning) daemon = await launchDaemon();
    },
  };
}

async function createHandle(
  setup: ControlPlaneSetup,
  { etcd, apiServer }: CoreServers,
  relay: Relay | undefined,
  stop: () => Promise<BedResources>,
): Promise<ControlPlane> {
  const { plan, authority, record } = setup;
  const { files, ports } = plan;
  const server = relay === undefined ? setup.server : `https://127.0.0.1:${relay.port}`;
  const writeKubeconfig = async (user: string, identity: KeyPair | { readonly token: string }, serverUrl = server) => {
    const path = files.kubeconfig(user.replaceAll(":", "-"));
    await writeFile(path, kubeconfig(serverUrl, authority.cert, identity), { mode: 0o600 });
    return path;
  };
  const adminKubeconfig = await writeKubeconfig("administrator", setup.administrator);
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
    logFile: (program) => logFile(setup, program),
    nodeKubeconfig(nodeName, serverUrl) {
      const user = nodeUser(nodeName);
      return writeKubeconfig(user.commonName, authority.issue(user), serverUrl);
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
    compactEtcd: () => compactStore(`http://127.0.0.1:${ports.etcd}`),
    async stop() {
      await relay?.close();
      return await stop();
    },
  };
}

/** The user and group of a node, for its client certificate. */
export const nodeUser = (nodeName: string) => ({
  commonName: `system:node:${nodeName}`,
  organizations: ["system:nodes"],
});

async function choosePorts(): Promise<ControlPlanePlan["ports"]> {
  const [etcd = 0, etcdPeer = 0, apiServer = 0, controllers = 0, scheduler = 0] = await pickPorts(5);
  return { etcd, etcdPeer, apiServer, "kube-controller-manager": controllers, "kube-scheduler": scheduler };
}

/** Writes all files below `certs`. */
async function writeCertificates(plan: ControlPlanePlan, authority: CertificateAuthority): Promise<void> {
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

async function writeServerCertificate({ files }: ControlPlanePlan, authority: CertificateAuthority): Promise<void> {
  const { cert, key } = authority.issue({ commonName: "kube-apiserver", hosts: serverHosts });
  await writeFile(files.serverCert, cert);
  await writeFile(files.serverKey, key, { mode: 0o600 });
}

/** Starts the controller manager or the scheduler. Both exit if the API server is away during their start. */
async function startComponent(start: () => Daemon, port: number, tls: TlsOptions): Promise<Pick<Daemon, "end">> {
  const daemon = start();
  await waitUntilReady(daemon, `https://127.0.0.1:${port}/healthz`, tls);
  return restartOnExit(daemon, start);
}

async function kubectl(
  args: readonly string[],
  { version = "1.36", kubeconfig: path = "", input = "" }: KubectlOptions,
  cache: string,
): Promise<string> {
  const own = [`--kubeconfig=${path}`, `--cache-dir=${cache}`];
  const { stdout } = await execa(await kubectlProgram(version), [...own, ...args], { input });
  return stdout;
}
