/** A container that containerd has created, by its log. */
export interface CreatedContainer {
  readonly id: string;
  /** The sandbox's id if containerd died before it logged the sandbox. */
  readonly podUid: string;
  readonly hasPodUid: boolean;
  readonly name: string;
  /** As the agent has numbered it. */
  readonly attemptNumber: number;
  /** The pod's uid, the container's name and the attempt number: at most one container that has run may have these. */
  readonly attempt: string;
  readonly hasStarted: boolean;
}

const SANDBOX =
  /RunPodSandbox for &PodSandboxMetadata\{Name:[^,]*,Uid:([^,]*),.*\} returns sandbox id \\?"([0-9a-f]{64})/;
const CREATED =
  /CreateContainer within sandbox \\?"([0-9a-f]{64})\\?" for &ContainerMetadata\{Name:([^,]*),Attempt:(\d+),.*\} returns container id \\?"([0-9a-f]{64})/;
const STARTED = /StartContainer for \\?"([0-9a-f]{64})\\?" returns successfully/;

/** What containerd has created, by the ids that it has returned. */
export interface CreatedIds {
  readonly containers: ReadonlyMap<string, CreatedContainer>;
  /** The pod's uid by the sandbox's id. */
  readonly sandboxes: ReadonlyMap<string, string>;
}

/** Reads what containerd 1.6 has created from its log. */
export function readCreatedIds(log: string): CreatedIds {
  const uids = new Map<string, string>();
  const created = new Map<string, CreatedContainer>();
  for (const line of log.split("\n")) {
    const [, uid, sandbox] = SANDBOX.exec(line) ?? [];
    if (uid !== undefined && sandbox !== undefined) uids.set(sandbox, uid);
    const [, sandboxId, name, number, id] = CREATED.exec(line) ?? [];
    if (sandboxId !== undefined && name !== undefined && id !== undefined) {
      const podUid = uids.get(sandboxId) ?? sandboxId;
      const attempt = `${podUid} ${name} #${number}`;
      const hasPodUid = uids.has(sandboxId);
      created.set(id, { id, podUid, hasPodUid, name, attemptNumber: Number(number), attempt, hasStarted: false });
    }
    const [, started = ""] = STARTED.exec(line) ?? [];
    const container = created.get(started);
    if (container !== undefined) created.set(started, { ...container, hasStarted: true });
  }
  return { containers: created, sandboxes: uids };
}

const createdContainers = (log: string) => [...readCreatedIds(log).containers.values()];

/**
 * Finds, in containerd's log, attempt numbers that were used again although a container of that number has run. Returns
 * one sentence for each.
 */
export function findDuplicateAttempts(log: string): readonly string[] {
  return [...Map.groupBy(createdContainers(log), ({ attempt }) => attempt)].flatMap(([attempt, all]) => {
    const instances = all.map(({ id, hasStarted }) => `${id.slice(0, 12)}${hasStarted ? " (ran)" : ""}`);
    return all.slice(0, -1).some(({ hasStarted }) => hasStarted)
      ? [`${attempt} was created as ${instances.join(", ")}`]
      : [];
  });
}

/** Counts, by containerd's log, the containers called `name` of a pod that have run. */
export const countStarted = (log: string, podUid: string, name: string): number =>
  createdContainers(log).filter((each) => each.podUid === podUid && each.name === name && each.hasStarted).length;
