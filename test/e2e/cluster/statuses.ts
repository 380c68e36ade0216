import { createClock } from "../../../host/clock.ts";
import { createKube } from "../../../kube/client.ts";
import { createConnection } from "../../../kube/connection.ts";
import { pods } from "../../../kube/resource.ts";
import type { Pod, PodPhase } from "../../../proto/kubernetes/gen/types.ts";
import { FakeLog } from "../../fakes/log.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";

export interface StatusRecording {
  /** One sentence for each status so far that takes back what the one before it had said of the same pod. */
  backwards(): readonly string[];
  /** How many statuses were seen. */
  count(): number;
  stop(): Promise<void>;
}

/** Watches every status that the API server has of any pod, from now on. */
export async function recordStatuses(plane: ControlPlane): Promise<StatusRecording> {
  const certificate = plane.authority.issue({ commonName: "recorder", organizations: ["system:masters"] });
  const [clock, log, random] = [createClock(), new FakeLog(), () => 0];
  const connection = createConnection({
    cluster: {
      server: new URL(plane.server),
      certificateAuthority: plane.ca,
      tlsServerName: undefined,
      insecureSkipTlsVerify: false,
      credentials: { identity: async () => ({ certificate }), refused: () => undefined },
    },
    userAgent: "berth-recorder",
    rates: { main: undefined, events: undefined },
    clock,
    random,
    log,
  });
  const latest = new Map<string, Pod>();
  const found: string[] = [];
  let count = 0;
  const see = (pod: Pod) => {
    const uid = pod.metadata.uid ?? "";
    const before = latest.get(uid);
    if (before !== undefined) found.push(...takenBack(before, pod));
    latest.set(uid, pod);
    count += 1;
  };
  const stopping = new AbortController();
  const listed = Promise.withResolvers<void>();
  const following = createKube({ connection, clock, log, random }).follow(
    pods(),
    {},
    {
      replaced(all) {
        for (const pod of all) see(pod);
        listed.resolve();
      },
      changed: (_, pod) => see(pod),
      away: () => undefined,
      back: () => undefined,
    },
    stopping.signal,
  );
  await listed.promise;
  return {
    backwards: () => found,
    count: () => count,
    async stop() {
      stopping.abort();
      await following;
      connection.close();
    },
  };
}

const order: readonly (PodPhase | undefined)[] = [undefined, "Pending", "Running", "Succeeded", "Failed"];

/** A start that was cut short counts as one: then a container begins anew, with a higher restart count. */
function takenBack(
  { metadata, status: before = {} }: Pod,
  { metadata: now, status: after = {} }: Pod,
): readonly string[] {
  const [was, is] = [before.containerStatuses?.[0], after.containerStatuses?.[0]];
  const isSame = was?.restartCount === is?.restartCount;
  const broken = {
    phase: order.indexOf(after.phase) < order.indexOf(before.phase),
    "start time": before.startTime !== undefined && before.startTime !== after.startTime,
    "restart count": (is?.restartCount ?? 0) < (was?.restartCount ?? 0),
    "container id": isSame && was?.containerID !== undefined && is?.containerID !== was.containerID,
    "being running": isSame && was?.state?.running !== undefined && is?.state?.waiting !== undefined,
    end: isSame && was?.state?.terminated !== undefined && is?.state?.terminated === undefined,
    readiness: was?.ready === true && is?.ready !== true && now.deletionTimestamp === undefined,
  };
  const told = `${JSON.stringify(was)} → ${JSON.stringify(is)}`;
  return Object.entries(broken)
    .filter(([, isBroken]) => isBroken)
    .map(([what]) => `${metadata.name}: ${what} taken back, from ${before.phase} to ${after.phase}: ${told}`);
}
