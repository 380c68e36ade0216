import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import { isToldByConnection, type KubeError } from "../../../kube/error.ts";
import { configMaps, type Resource, secrets } from "../../../kube/resource.ts";
import type { ConfigMap, Secret } from "../../../proto/kubernetes/gen/types.ts";
import type { Reference, Referent } from "../../../proto/kubernetes/references.ts";
import { createTrouble } from "../outage-log.ts";

/** One Secret or ConfigMap, in memory alone. */
export interface FollowedObject {
  /** Follows it until `end`, or until it is seen to be immutable; never rejects. Called once. */
  follow(): Promise<void>;
  /** Nobody needs it any more; nothing is told from now on. */
  end(): void;
}

export interface FollowedObjectSettings {
  readonly kube: Pick<Kube, "follow">;
  readonly clock: Clock;
  readonly log: Log;
  readonly reference: Reference;
  /** It was read, or is another one now. May not throw, as the other. */
  readonly told: (object: Referent | "absent") => void;
  /** It could not be read for so long that nobody is to wait for it. */
  readonly late: () => void;
}

/** The kubelet's. */
const PATIENCE_MS = 1_000;

/** By a watch of its own: the API server lets a node see single objects, and of those only what its pods refer to. */
export function createFollowedObject(settings: FollowedObjectSettings): FollowedObject {
  const { kube, clock, log, reference, told, late } = settings;
  const { namespace, name } = reference;
  const what = `the ${reference.kind} ${namespace}/${name}`;
  const trouble = createTrouble(log, {}, `${what} is read from the API server`);
  const ending = new AbortController();
  /** What was told last. */
  let version: string | undefined;
  let isLate = false;
  let away: KubeError | undefined;
  const cancelPatience = clock.wakeAt(clock.now() + PATIENCE_MS, () => {
    isLate = true;
    complain();
    late();
  });

  /** Later on what was read is good enough, and what is wrong with the connection is told once for all that is asked over it. */
  function complain(): void {
    if (!isLate || version !== undefined || away === undefined || isToldByConnection(away)) return;
    trouble.met(`${what} cannot be read from the API server: ${away.message}`);
  }

  function tell(object: Secret | ConfigMap | undefined): void {
    const now = object === undefined ? "absent" : `version ${object.metadata.resourceVersion}`;
    if (now === version) return;
    version = now;
    cancelPatience();
    trouble.over();
    // It stays as it is for as long as there is one of its name.
    if (object?.immutable === true) ending.abort();
    told(object === undefined ? "absent" : kept(object));
  }

  const isOurs = ({ metadata }: Secret | ConfigMap) => metadata.namespace === namespace && metadata.name === name;
  return {
    follow: () =>
      kube.follow(
        resourceOf(reference),
        { fieldSelector: `metadata.name=${name}` },
        {
          replaced: (objects) => tell(objects.find(isOurs)),
          changed(kind, object) {
            if (isOurs(object)) tell(kind === "deleted" ? undefined : object);
          },
          away(error) {
            away = error;
            complain();
          },
          back() {
            // What was missed is told as changes, or anew.
            away = undefined;
          },
        },
        ending.signal,
      ),
    end() {
      cancelPatience();
      ending.abort();
    },
  };
}

function resourceOf({ kind, namespace }: Reference): Resource<Secret | ConfigMap> {
  return kind === "secret" ? secrets(namespace) : configMaps(namespace);
}

/** As much of it as pods are told. Whatever a server may send comes here. */
function kept(object: Secret | ConfigMap): Referent {
  const values = Object.entries(object.data ?? {}).filter(([, value]) => typeof value === "string");
  const type = "type" in object && typeof object.type === "string" ? object.type : "";
  return { uid: object.metadata.uid ?? "", type, data: Object.fromEntries(values) };
}
