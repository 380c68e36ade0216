import { dirname } from "node:path/posix";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log.ts";
import type { ObservedContainer, ObservedPod } from "../../decide/pod/observed.ts";
import { containerLogPath, logLinkName, podLogFolder } from "../../translate/log-path.ts";
import type { PodDisk } from "../volumes/pod-volumes.ts";

/**
 * The links by which log collectors find the logs of containers: `/var/log/containers/<pod>_<namespace>_<container>-<id>.log`, as
 * the kubelet makes them. They are held against what is observed, so it does not matter who died before one was made.
 */
export interface LogLinks {
  /** Makes what the pod lacks and removes what it has too much; costs nothing where nothing has changed. Never rejects. */
  keep(pod: ObservedPod): Promise<void>;
  /** Reads the folder: what somebody has removed is made again, and what leads nowhere is removed. Never rejects. */
  audit(): Promise<void>;
}

/** Name → target. */
type Links = Map<string, string>;

interface Room {
  /** The machine's files, and the paths in it of the links and of the pods' logs. */
  readonly machine: Files;
  readonly folder: string;
  readonly logs: string;
  /** The links that are there, by the folder of their pod's logs. */
  readonly known: Map<string, Links>;
}

export function createLogLinks({ machine, logs }: Pick<PodDisk, "machine" | "logs">, log: Log): LogLinks {
  const folder = `${dirname(logs.root)}/containers`;
  const room: Room = { machine, folder, logs: logs.root, known: new Map() };
  let isRead = false;
  let isTold = false;
  /** One change at a time: each is too small to gain by another beside it. */
  let last: Promise<void> = Promise.resolve();

  async function inTurn(work: () => Promise<void>): Promise<void> {
    const done = last.then(work);
    // Whoever asked for this work hears of its failure; the next one begins anew.
    last = done.catch(() => undefined);
    await done;
    isTold = false;
  }

  /** A pod that runs without a link is better than one that does not run. */
  async function quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!isTold) log.warn({ err: error, folder }, "the links by which log collectors find logs cannot be kept");
      isTold = true;
    }
  }

  async function read(): Promise<void> {
    await readFolder(room);
    isRead = true;
  }

  async function keep(pod: ObservedPod): Promise<void> {
    if (pod.name === "") return;
    const podFolder = podLogFolder({ metadata: pod });
    const wanted = linksOf(pod, `${logs.root}/${podFolder}`);
    if (isRead && areEqual(room.known.get(podFolder), wanted)) return;
    await inTurn(async () => {
      if (!isRead) await read();
      await bring(room, podFolder, wanted);
    });
  }

  return { keep: (pod) => quietly(() => keep(pod)), audit: () => quietly(() => inTurn(read)) };
}

/** A container that never ran has nothing to show; of two whose names are cut to the same, the newer has the link. */
function linksOf({ name, namespace, containers }: ObservedPod, folder: string): Links {
  return new Map(
    containers
      .filter(hasRun)
      .toReversed()
      .map((container) => [
        logLinkName(name, namespace, container.name, container.id),
        `${folder}/${containerLogPath(container.name, container.attempt)}`,
      ]),
  );
}

function hasRun(container: ObservedContainer): boolean {
  return container.state !== "created" && !(container.state === "exited" && container.startedAt === 0);
}

function areEqual(a: Links = new Map(), b: Links): boolean {
  return a.size === b.size && [...b].every(([name, target]) => a.get(name) === target);
}

async function bring({ machine, folder, known }: Room, podFolder: string, wanted: Links): Promise<void> {
  const present: Links = known.get(podFolder) ?? new Map();
  known.set(podFolder, present);
  for (const name of [...present.keys()].filter((each) => !wanted.has(each))) {
    await machine.remove(`${folder}/${name}`);
    present.delete(name);
  }
  for (const [name, target] of wanted) {
    if (present.get(name) === target) continue;
    await machine.link(`${folder}/${name}`, target);
    present.set(name, target);
  }
  if (present.size === 0) known.delete(podFolder);
}

async function readFolder({ machine, folder, logs, known }: Room): Promise<void> {
  await machine.makeFolder(folder, 0o755);
  const names = new Set(((await machine.list(folder)) ?? []).map(({ name }) => name));
  for (const [name, target] of [...known.values()].flatMap((links) => [...links]))
    if (!names.delete(name)) await machine.link(`${folder}/${name}`, target);
  for (const name of names) {
    const target = await machine.readLink(`${folder}/${name}`);
    // Others may have links here too.
    if (!target?.startsWith(`${logs}/`)) continue;
    const [podFolder = ""] = target.slice(`${logs}/`.length).split("/");
    if ((await machine.stat(`${folder}/${name}`)) === undefined) await machine.remove(`${folder}/${name}`);
    else known.set(podFolder, (known.get(podFolder) ?? new Map()).set(name, target));
  }
}
