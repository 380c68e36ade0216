import type { PodUid } from "../../../proto/ids.ts";
import { sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type Amounts, podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { priorityOf } from "../../../proto/kubernetes/priority.ts";
import type { DesiredPod } from "../pod/desired.ts";

/** What one pod takes of its node. */
export interface Claim {
  readonly requests: Amounts;
  readonly ports: readonly HostPort[];
  /** The node makes room for it. */
  readonly isCritical: boolean;
  /** Undefined where nobody has said. */
  readonly priority: number | undefined;
}

export interface HostPort {
  readonly ip: string;
  readonly protocol: string;
  readonly port: number;
}

/** What the pods of a node have taken of it. */
export interface Occupancy {
  pods(): number;
  amount(resource: string): bigint;
  has(port: HostPort): boolean;
  claims(): Iterable<Claim>;
}

const ANY_ADDRESS = "0.0.0.0";
const CRITICAL_PRIORITY = 2_000_000_000;

/** Static pods are critical whatever they say: nobody could bind them to another node. */
export function claimOf({ pod, source }: DesiredPod): Claim {
  return {
    requests: podRequests(pod),
    ports: hostPorts(pod),
    isCritical: source.kind !== "api" || priorityOf(pod) >= CRITICAL_PRIORITY,
    priority: pod.spec.priority,
  };
}

/** Init containers have theirs only while they run, unless they run beside the others. */
function hostPorts({ spec }: Pod): readonly HostPort[] {
  return [...sidecarsOf(spec), ...spec.containers].flatMap(({ ports = [] }) =>
    ports.flatMap(({ hostIP, protocol = "TCP", hostPort: port = 0 }) =>
      port > 0 ? [{ ip: hostIP || ANY_ADDRESS, protocol, port }] : [],
    ),
  );
}

/**
 * Whether the pod counts against others: it was admitted, has not ended, and somebody still wants it. A manifest that is gone wants
 * nothing; a pod of the API that is deleted counts until it has ended, or the API server has it no more.
 */
function holdsPlace({ admission, isPlaceFree, termination, source }: DesiredPod): boolean {
  return admission === undefined && isPlaceFree !== true && (termination === undefined || source.kind === "api");
}

/** Keeps count of what pods take and give back, so that nobody who asks has to sum up. */
export function createPlaces() {
  const claims = new Map<PodUid, { readonly version: string; readonly claim: Claim }>();
  const amounts = new Map<string, bigint>();
  /** By protocol and port: how many pods have it, by address. */
  const ports = new Map<string, Map<string, number>>();

  function count({ requests, ports: taken }: Claim, sign: 1n | -1n): void {
    for (const [name, amount] of requests) amounts.set(name, (amounts.get(name) ?? 0n) + sign * amount);
    for (const { ip, protocol, port } of taken) {
      const key = `${protocol}/${port}`;
      const addresses = ports.get(key) ?? new Map<string, number>();
      const users = (addresses.get(ip) ?? 0) + Number(sign);
      if (users === 0) addresses.delete(ip);
      else addresses.set(ip, users);
      if (addresses.size === 0) ports.delete(key);
      else ports.set(key, addresses);
    }
  }

  function giveBack(uid: PodUid): void {
    const known = claims.get(uid);
    if (known === undefined) return;
    claims.delete(uid);
    count(known.claim, -1n);
  }

  const occupancy: Occupancy = {
    pods: () => claims.size,
    amount: (resource) => amounts.get(resource) ?? 0n,
    has({ ip, protocol, port }) {
      const addresses = ports.get(`${protocol}/${port}`);
      if (addresses === undefined) return false;
      return ip === ANY_ADDRESS || addresses.has(ANY_ADDRESS) || addresses.has(ip);
    },
    claims: () => [...claims.values()].map(({ claim }) => claim),
  };
  return {
    occupancy,
    /** The pod is known in this form now: it takes its place, or gives it back. */
    note(desired: DesiredPod): void {
      const { uid, revision, pod } = desired;
      // What a pod claims changes only together with one of these.
      const version = holdsPlace(desired) ? `${revision} ${pod.metadata.generation}` : undefined;
      if (claims.get(uid)?.version === version) return;
      giveBack(uid);
      if (version === undefined) return;
      const claim = claimOf(desired);
      claims.set(uid, { version, claim });
      count(claim, 1n);
    },
    giveBack,
  };
}
