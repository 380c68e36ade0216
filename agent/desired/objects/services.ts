import { createCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import { createRetriedWrites } from "../../../host/async/retried-writes.ts";
import type { Clock } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { services } from "../../../kube/resource.ts";
import type { Service, ServicePort } from "../../../proto/kubernetes/gen/types.ts";
import { createInformer } from "./informer.ts";

/** The Services for the environment variables of containers. */
export interface Services {
  /**
   * The Services of all namespaces that have a cluster IP. Before the first list, those of the last agent's checkpoint;
   * undefined without one.
   */
  latest(): readonly Service[] | undefined;
  /**
   * Whether the known Services suffice to start a pod of the API server: its containers keep their variables for life.
   * Those of the checkpoint suffice until the API server responds.
   */
  canStartPods(): boolean;
  /** A container is created with these variables: saves the Services for the next agent. */
  markUsed(): void;
  /** Runs the watch until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is being written. */
  settled(): Promise<void>;
}

export interface ServicesOptions {
  readonly kube: Pick<KubeClient, "listAndWatch">;
  readonly clock: Clock;
  readonly log: Log;
  /** The agent's root directory. */
  readonly root: Files;
  /** The namespaces of this node's pods. */
  readonly namespaces: () => ReadonlySet<string>;
  /** Whether the API server has responded to this agent. Pods wait for its Services then. */
  readonly isApiSynced: () => boolean;
  /** Called when `latest` becomes available, from the checkpoint or from the first list. */
  readonly onAvailable: () => void;
}

/** The Service that every pod of the cluster gets variables for. */
const KUBERNETES_SERVICE = "default/kubernetes";

/**
 * Watches the Services except headless ones, which have no variables. A checkpoint stays on the disk: a node that
 * starts during an outage of its API server restarts its pods with the same variables, which they keep.
 */
export function createServices(options: ServicesOptions): Services {
  const { kube, log, namespaces, isApiSynced, onAvailable } = options;
  const selector = { fieldSelector: "spec.clusterIP!=None" };
  const informer = createInformer({ kube, log, resource: services(), selector, transform, onChange });
  const checkpoint = createServiceCheckpoint(options);
  let isListed = false;
  let lastSaved: { readonly services: readonly Service[]; readonly namespaces: string } | undefined;

  function onChange(): void {
    const isFirst = !isListed;
    isListed = true;
    markUsed();
    if (isFirst) onAvailable();
  }

  function markUsed(): void {
    const all = informer.latest();
    const podNamespaces = namespaces();
    if (all === undefined || podNamespaces.size === 0) return;
    const key = [...podNamespaces].toSorted().join();
    // Often nothing has changed: a hundred containers that start at once use the same Services.
    if (lastSaved?.services === all && lastSaved.namespaces === key) return;
    lastSaved = { services: all, namespaces: key };
    const isOurs = ({ metadata: { namespace = "", name } }: Service) =>
      podNamespaces.has(namespace) || `${namespace}/${name}` === KUBERNETES_SERVICE;
    checkpoint.write(all.filter(isOurs));
  }

  return {
    latest: () => informer.latest() ?? checkpoint.found(),
    canStartPods: () => isListed || (checkpoint.found() !== undefined && !isApiSynced()),
    markUsed,
    async run(signal) {
      await checkpoint.load();
      if (checkpoint.found() !== undefined) onAvailable();
      await informer.run(signal);
      await checkpoint.settled();
    },
    settled: checkpoint.settled,
  };
}

/** Reduces a Service to what the variables need; undefined if it has none, or if it is malformed. */
function transform({ metadata: { namespace, name }, spec }: Service): Service | undefined {
  const { clusterIP, ports } = spec ?? {};
  if (!isText(namespace) || !isText(name) || !isText(clusterIP) || clusterIP === "None") return undefined;
  if (!Array.isArray(ports)) return undefined;
  return {
    metadata: { namespace, name },
    spec: { clusterIP, ports: ports.flatMap((port) => transformPort(port) ?? []) },
  };
}

/** Undefined if the port is malformed: it would break every pod of the namespace. */
function transformPort(received: ServicePort | null): ServicePort | undefined {
  const { name, port, protocol } = received ?? {};
  if (!Number.isInteger(port)) return undefined;
  return { port: Number(port), ...(isText(name) && { name }), ...(isText(protocol) && { protocol }) };
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

const FOLDER = "berth";
const NAME = "services.json";
const FILE = `${FOLDER}/${NAME}`;
const VERSION = 1;
const MAX_BYTES = 8 << 20;

function createServiceCheckpoint({ root, clock, log }: Pick<ServicesOptions, "root" | "clock" | "log">) {
  let restored: readonly Service[] | undefined;
  let pending: string | undefined;
  let written: string | undefined;
  const writes = createRetriedWrites<typeof FILE>({
    clock,
    onRecovered: () => log.info({}, "the Services are saved again"),
  });
  const writer = createCoalescingWorker(() =>
    writes.write(FILE, writePending, (error) =>
      log.warn(
        { err: error },
        "cannot save the Services yet; until they are saved, an agent that starts without the API server would not know them",
      ),
    ),
  );

  async function writePending(): Promise<void> {
    if (pending === undefined || written === pending) return;
    const text = pending;
    await root.write(FILE, text, 0o600);
    written = text;
  }

  return {
    found: () => restored,
    /** Never rejects: without a checkpoint the pods wait for the API server. */
    async load(): Promise<void> {
      try {
        await removeLeftovers(root);
        if ((await root.stat(FILE)) === undefined) return;
        const text = await root.read(FILE, MAX_BYTES);
        restored = decode(text);
        written ??= text;
      } catch (error) {
        log.warn({ file: root.path(FILE) }, `cannot use the saved Services: ${messageOf(error)}`);
      }
    },
    write(all: readonly Service[]): void {
      pending = `${JSON.stringify({ version: VERSION, services: all })}\n`;
      writer.wake();
    },
    settled: () => writer.settled(),
  };
}

/** Removes temporary files of an agent that died during a write. */
async function removeLeftovers(root: Files): Promise<void> {
  for (const { name } of (await root.list(FOLDER)) ?? [])
    if (name.startsWith(`.${NAME}.`) && name.endsWith(".tmp")) await root.remove(`${FOLDER}/${name}`);
}

/** Throws an error if the file was not written by this release. */
function decode(text: string): readonly Service[] {
  const { version, services: all } = JSON.parse(text) as { readonly version?: unknown; readonly services?: unknown };
  if (version !== VERSION || !Array.isArray(all)) throw new Error("this release cannot read its format");
  return (all as readonly Service[]).flatMap((service) => transform(service) ?? []);
}
