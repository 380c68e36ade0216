/** What containerd's log tells of one container that it was asked for, and has made. */
interface Made {
  readonly id: string;
  /** The pod's uid, the container's name and the number of its attempt: only one container may ever be that. */
  readonly attempt: string;
  readonly hasStarted: boolean;
}

const SANDBOX =
  /RunPodSandbox for &PodSandboxMetadata\{Name:[^,]*,Uid:([^,]*),.*\} returns sandbox id \\?"([0-9a-f]{64})/;
const CREATED =
  /CreateContainer within sandbox \\?"([0-9a-f]{64})\\?" for &ContainerMetadata\{Name:([^,]*),Attempt:(\d+),.*\} returns container id \\?"([0-9a-f]{64})/;
const STARTED = /StartContainer for \\?"([0-9a-f]{64})\\?" returns successfully/;

function madeIn(log: string): readonly Made[] {
  const uids = new Map<string, string>();
  const made = new Map<string, Made>();
  for (const line of log.split("\n")) {
    const [, uid, sandbox] = SANDBOX.exec(line) ?? [];
    if (uid !== undefined && sandbox !== undefined) uids.set(sandbox, uid);
    const [, within, name, number, id] = CREATED.exec(line) ?? [];
    // A sandbox of which the log does not tell that it was made, since containerd died just then, stands for its pod.
    if (within !== undefined && id !== undefined)
      made.set(id, { id, attempt: `${uids.get(within) ?? within} ${name} #${number}`, hasStarted: false });
    const [, started = ""] = STARTED.exec(line) ?? [];
    const container = made.get(started);
    if (container !== undefined) made.set(started, { ...container, hasStarted: true });
  }
  return [...made.values()];
}

/**
 * One sentence for each attempt that was made twice by containerd's own log: a number that is used again although a container of that
 * number has run.
 */
export function attemptsMadeTwice(log: string): readonly string[] {
  return [...Map.groupBy(madeIn(log), ({ attempt }) => attempt)].flatMap(([attempt, all]) => {
    const words = all.map(({ id, hasStarted }) => `${id.slice(0, 12)}${hasStarted ? " (ran)" : ""}`);
    return all.slice(0, -1).some(({ hasStarted }) => hasStarted) ? [`${attempt} was made as ${words.join(", ")}`] : [];
  });
}
