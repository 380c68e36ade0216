import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import { services } from "../../../kube/resource.ts";
import type { Service, ServicePort } from "../../../proto/kubernetes/gen/types.ts";
import { messageOf } from "../outage-log.ts";
import { createCollection } from "./informer.ts";

/** The Services that containers are told of. */
export interface Services {
  /**
   * Those of all namespaces that have an address of their own; until they are heard, those that the last agent's pods were told of.
   * Undefined where nobody has read any.
   */
  latest(): readonly Service[] | undefined;
  /** Whether they are good enough for a pod of the API: what it is told of them it keeps. */
  areRead(): boolean;
  /** A container is made that is told of them: the next agent has to know them too. */
  used(): void;
  /** Follows them until the signal aborts; never rejects. */
  follow(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is being written. */
  settled(): Promise<void>;
}

export interface ServicesSettings {
  readonly kube: Pick<Kube, "follow">;
  readonly log: Log;
  /** The agent's root directory. */
  readonly root: Files;
  /** Of the pods of this node. */
  readonly namespaces: () => ReadonlySet<string>;
  /** The API server was heard by this agent: then it is waited for its Services too. */
  readonly isApiHeard: () => boolean;
  /** There is an answer where there was none. */
  readonly read: () => void;
}

/** The same for every pod of the cluster. */
const EVERYBODYS = "default/kubernetes";

/**
 * Follows the Services, but for headless ones, which no variable tells of. A copy stays on the disk: a node that starts while its API
 * server is away restarts its pods, and what they are told of Services then they keep.
 */
export function createServices(settings: ServicesSettings): Services {
  const { kube, log, namespaces, isApiHeard, read } = settings;
  const selector = { fieldSelector: "spec.clusterIP!=None" };
  const heard = createCollection({ kube, log, resource: services(), selector, kept, changed });
  const copy = createServiceCopy(settings);
  let isHeard = false;
  let copied: { readonly of: readonly Service[]; readonly spaces: string } | undefined;

  function changed(): void {
    const isFirst = !isHeard;
    isHeard = true;
    used();
    if (isFirst) read();
  }

  function used(): void {
    const all = heard.latest();
    const spaces = namespaces();
    if (all === undefined || spaces.size === 0) return;
    const key = [...spaces].toSorted().join();
    // A hundred containers at once are made with the same Services.
    if (copied?.of === all && copied.spaces === key) return;
    copied = { of: all, spaces: key };
    const isOurs = ({ metadata: { namespace = "", name } }: Service) =>
      spaces.has(namespace) || `${namespace}/${name}` === EVERYBODYS;
    copy.write(all.filter(isOurs));
  }

  return {
    latest: () => heard.latest() ?? copy.found(),
    areRead: () => isHeard || (copy.found() !== undefined && !isApiHeard()),
    used,
    async follow(signal) {
      await copy.load();
      if (copy.found() !== undefined) read();
      await heard.follow(signal);
      await copy.settled();
    },
    settled: copy.settled,
  };
}

/** As much of it as containers are told; undefined where that is nothing, or what no Service is like. */
function kept({ metadata: { namespace, name }, spec }: Service): Service | undefined {
  const { clusterIP, ports } = spec ?? {};
  if (!isText(namespace) || !isText(name) || !isText(clusterIP) || clusterIP === "None") return undefined;
  if (!Array.isArray(ports)) return undefined;
  return { metadata: { namespace, name }, spec: { clusterIP, ports: ports.flatMap((port) => keptPort(port) ?? []) } };
}

/** Undefined where it cannot be told of: each pod of the namespace would trip over it. */
function keptPort(told: ServicePort | null): ServicePort | undefined {
  const { name, port, protocol } = told ?? {};
  if (!Number.isInteger(port)) return undefined;
  return { port: Number(port), ...(isText(name) && { name }), ...(isText(protocol) && { protocol }) };
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

const FOLDER = "berth";
const NAME = "services.json";
const FILE = `${FOLDER}/${NAME}`;
const VERSION = 1;
const MOST_BYTES = 8 << 20;

function createServiceCopy({ root, log }: Pick<ServicesSettings, "root" | "log">) {
  let found: readonly Service[] | undefined;
  let wanted: string | undefined;
  let written: string | undefined;
  let writing: Promise<void> | undefined;

  async function writeAll(): Promise<void> {
    while (wanted !== undefined && written !== wanted) {
      // The next change is the next try: a disk that is full now is full a moment later.
      written = wanted;
      await root.write(FILE, wanted, 0o600).catch((error: unknown) => {
        log.warn({ err: error }, "the Services cannot be kept: a start without the API server would not know them");
      });
    }
  }

  function begin(): void {
    writing = writeAll().finally(() => {
      writing = undefined;
      // What has come after the last look and before this line found somebody writing, and left it to them.
      if (wanted !== written) begin();
    });
  }

  return {
    found: () => found,
    /** Never rejects: without a copy the pods wait for the API server. */
    async load(): Promise<void> {
      try {
        await removeLeftovers(root);
        if ((await root.stat(FILE)) === undefined) return;
        const text = await root.read(FILE, MOST_BYTES);
        found = decode(text);
        written ??= text;
      } catch (error) {
        log.warn({ file: root.path(FILE) }, `the copy of the Services cannot be used: ${messageOf(error)}`);
      }
    },
    write(all: readonly Service[]): void {
      wanted = `${JSON.stringify({ version: VERSION, services: all })}\n`;
      if (writing === undefined) begin();
    },
    async settled(): Promise<void> {
      await writing;
    },
  };
}

/** What an agent that died while it wrote has left. */
async function removeLeftovers(root: Files): Promise<void> {
  for (const { name } of (await root.list(FOLDER)) ?? [])
    if (name.startsWith(`.${NAME}.`) && name.endsWith(".tmp")) await root.remove(`${FOLDER}/${name}`);
}

/** Throws an error for what is no copy of this release. */
function decode(text: string): readonly Service[] {
  const { version, services: all } = JSON.parse(text) as { readonly version?: unknown; readonly services?: unknown };
  if (version !== VERSION || !Array.isArray(all)) throw new Error("it is none of this release");
  return (all as readonly Service[]).flatMap((service) => kept(service) ?? []);
}
