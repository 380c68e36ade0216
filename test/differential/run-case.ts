import { setTimeout as pause } from "node:timers/promises";
import { nodes, pods } from "../../kube/resource.ts";
import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { barePod } from "../e2e/cluster/api-objects.ts";
import { NODE_NAME, OF_NUMBER, type Play, PRIVATE_REGISTRY, REGISTRY } from "./cases/pod-case.ts";
import { MISSED, type Moment, type Rows, rowsOf } from "./comparison-rows.ts";
import type { Watched } from "./pod-watch.ts";
import { type Bed, putManifest, type Side } from "./three-node-bed.ts";

const PATIENCE_MS = 90_000;
const HANDLERS_MS = 2_000;
/** Who does not tolerate this one leaves a node that has it. */
const taint = { key: "berth.test/away", effect: "NoExecute" } as const;

export interface Stage {
  readonly bed: Pick<Bed, "kube" | "plane">;
  readonly side: Side;
  readonly watched: Watched;
}

/**
 * Runs a pod on one side from its beginning to its end. Returns what can be told once everybody is done, since events come when they
 * come. What does not come about in time is part of it.
 */
export async function live(stage: Stage, play: Play): Promise<() => Rows> {
  const { side, watched } = stage;
  const name = play.isStatic === true ? `${play.name}-${side.nodeName}` : play.name;
  const moments: Moment[] = [];
  const keep = (moment: string) =>
    moments.push({ name: moment, pod: watched.pod(name) ?? { metadata: {}, spec: { containers: [] } } });
  const told = () => watched.events(name).flatMap(({ reason = "", count = 1 }) => Array<string>(count).fill(reason));
  const missed: string[] = [];
  const reach = async (what: string, holds: () => boolean) => {
    if (!(await watched.until(holds, PATIENCE_MS))) missed.push(what);
    keep(what);
  };
  await begin(stage, play);
  await reach("settled", () => {
    const pod = watched.pod(name);
    return pod !== undefined && play.until(pod, told());
  });
  const { afterwards } = play;
  if (afterwards !== undefined) {
    if (afterwards.kind !== "wait") await setUp(watched.pod(name));
    await intervene(stage, play);
    await reach("later", () => afterwards.until(watched.isThere(name) ? watched.pod(name) : undefined));
  }
  await setUp(watched.pod(name));
  await finish(stage, play);
  await reach("gone", () => !watched.isThere(name));
  return () => {
    const rows = rowsOf(moments, watched.events(name), side.names);
    return new Map([...rows, ...missed.map((what) => [`${what}${MISSED}`, "no"] as const)]);
  };
}

/** A first process that has set up no handler yet loses its SIGTERM, which the kernel drops; nothing tells when it has. */
async function setUp(pod: Pod | undefined): Promise<void> {
  if (allContainerStatuses(pod?.status).some(({ state }) => state?.running)) await pause(HANDLERS_MS);
}

function manifestOf({ registry, privateRegistry, nodeName, namespace }: Side, play: Play): Pod {
  const { metadata, spec, ...rest } = barePod(play.name, play.container, {
    // More than a busy machine needs to end a container that hears SIGTERM.
    terminationGracePeriodSeconds: 30,
    ...play.spec,
  });
  const text = JSON.stringify({
    ...rest,
    // A name may be longer than the value of a label.
    metadata: { ...metadata, namespace, labels: { app: "differential" } },
    spec: {
      ...spec,
      ...(play.isStatic === true || spec.nodeName !== undefined
        ? {}
        : { nodeSelector: { "kubernetes.io/hostname": nodeName } }),
      ...(play.afterwards?.kind === "taint the node" ? {} : { tolerations: [{ key: taint.key, operator: "Exists" }] }),
    },
  });
  const own = [
    [REGISTRY, registry],
    [PRIVATE_REGISTRY, privateRegistry],
    [NODE_NAME, nodeName],
  ] as const;
  return JSON.parse(own.reduce((before, [common, name]) => before.replaceAll(common, name), text)) as Pod;
}

async function begin({ bed, side }: Stage, play: Play): Promise<void> {
  const pod = manifestOf(side, play);
  if (play.isStatic === true) await putManifest(side, play.name, JSON.stringify(pod));
  else await bed.kube.create(pods(side.namespace), pod);
}

async function intervene({ bed: { kube, plane }, side, watched }: Stage, { name, afterwards }: Play): Promise<void> {
  if (afterwards?.kind === "wait") return;
  if (afterwards?.kind === "debug") {
    await plane.kubectl(["debug", name, `--namespace=${side.namespace}`, ...(afterwards.debug ?? [])]);
    return;
  }
  if (afterwards?.kind === "end the sandbox") return await side.endSandbox(watched.pod(name)?.metadata.uid ?? "");
  if (afterwards?.kind === "change the image") {
    const body = { spec: { containers: [{ name: "main", image: OF_NUMBER }] } };
    await kube.patch(pods(side.namespace), name, { type: "strategic", body });
    return;
  }
  if (afterwards?.kind === "taint the node") {
    await kube.patch(nodes, side.nodeName, {
      type: "strategic",
      body: { spec: { taints: [{ ...taint, value: "now" }] } },
    });
    return;
  }
  const conditions = [{ type: "berth.test/open", status: "True", lastTransitionTime: new Date().toISOString() }];
  await kube.patch(pods(side.namespace), name, {
    type: "strategic",
    subresource: "status",
    body: { status: { conditions } },
  });
}

async function finish({ bed: { kube }, side, watched }: Stage, play: Play): Promise<void> {
  if (play.isStatic === true) return await putManifest(side, play.name, undefined);
  if (!watched.isThere(play.name)) return;
  const { gracePeriodSeconds } = play;
  await kube.delete(pods(side.namespace), play.name, gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds });
}
