import { setTimeout as pause } from "node:timers/promises";
import { nodes, pods } from "../../kube/resource.ts";
import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { barePod } from "../e2e/cluster/api-objects.ts";
import type { CreatedIds } from "../e2e/create-attempts.ts";
import {
  HOST_FOLDER,
  HOST_SOCKET,
  hasEnded,
  IMAGE_BY_DIGEST,
  NODE_NAME,
  NUMERIC_USER_IMAGE,
  type PodCase,
  PRIVATE_REGISTRY,
  REGISTRY,
  SIDE_NAMESPACE,
} from "./cases/pod-case.ts";
import { MISSED_SUFFIX, type Rows, toRows } from "./comparison-rows.ts";
import { type DifferentialBed, putManifest, type Side } from "./differential-bed.ts";
import type { PodWatch } from "./pod-watch.ts";
import type { Snapshot } from "./snapshot-times.ts";

/** More than a slow machine needs beside other suites: a state that is not reached in time becomes a difference. */
const SETTLE_TIMEOUT_MS = 240_000;
/** The kubelet looks at the objects of a running pod at its syncs, which are up to 90 s apart. */
const UPDATE_TIMEOUT_MS = 300_000;
const SIGNAL_HANDLER_SETUP_MS = 2_000;
/** A NoExecute taint: a pod without the toleration is evicted from the node. */
const taint = { key: "berth.test/away", effect: "NoExecute" } as const;

export interface CaseRun {
  readonly bed: Pick<DifferentialBed, "kube" | "plane">;
  readonly side: Side;
  readonly watched: PodWatch;
  /** Waits until the next pod may be created. Resolves with the function to call once that pod no longer waits for its sandbox. */
  acquireSandboxSlot(): Promise<() => void>;
}

/**
 * Runs one pod on one side from its creation to its removal. Returns a function that makes the rows, to be called after
 * all pods are done, since events may arrive late, with what the runtime has created. A state that was not reached in
 * time becomes a row too.
 */
export async function runCase(run: CaseRun, podCase: PodCase): Promise<(created: CreatedIds) => Rows> {
  const { side, watched } = run;
  const name = podCase.isStatic === true ? `${podCase.name}-${side.nodeName}` : podCase.name;
  const snapshots: Snapshot[] = [];
  const takeSnapshot = (snapshotName: string) =>
    snapshots.push({
      name: snapshotName,
      pod: watched.pod(name) ?? { metadata: {}, spec: { containers: [] } },
      takenAtMs: Date.now(),
    });
  const eventReasons = () =>
    watched.events(name).flatMap(({ reason = "", count = 1 }) => Array<string>(count).fill(reason));
  const missed: string[] = [];
  const waitAndRecord = async (what: string, holds: () => boolean) => {
    const timeoutMs = what === "later" && isUpdate(podCase) ? UPDATE_TIMEOUT_MS : SETTLE_TIMEOUT_MS;
    if (!(await watched.until(name, holds, timeoutMs))) missed.push(what);
    takeSnapshot(what);
  };
  await useObjects(run, "apply", podCase.objects);
  await waitUntilBound(run, podCase.boundClaims);
  const releaseSlot = await run.acquireSandboxSlot();
  await createPod(run, podCase);
  void watched.until(name, () => hasPassedSandbox(watched, name), SETTLE_TIMEOUT_MS).then(releaseSlot);
  await waitAndRecord("settled", () => {
    const pod = watched.pod(name);
    return pod !== undefined && podCase.until(pod, eventReasons());
  });
  const { afterwards } = podCase;
  if (afterwards !== undefined) {
    if (afterwards.kind !== "wait") await waitForSignalHandlers(watched.pod(name));
    await applyChange(run, podCase);
    await waitAndRecord("later", () => afterwards.until(watched.isThere(name) ? watched.pod(name) : undefined));
  }
  await waitForSignalHandlers(watched.pod(name));
  await removePod(run, podCase);
  await waitAndRecord("gone", () => !watched.isThere(name));
  await useObjects(run, "delete", [...(podCase.objects ?? []), ...(afterwards?.objects ?? [])]);
  return (created) => {
    const rows = toRows(snapshots, watched.events(name), side.names, created);
    return new Map([...rows, ...missed.map((what) => [`${what}${MISSED_SUFFIX}`, "no"] as const)]);
  };
}

/** Whether a pod no longer waits for its sandbox: it has one, or gets none soon. A failed pull says nothing about the sandbox. */
function hasPassedSandbox(watched: PodWatch, name: string): boolean {
  const pod = watched.pod(name);
  if (pod === undefined) return false;
  const isBlocked = watched.events(name).some(({ type, reason = "" }) => type === "Warning" && /^Failed./.test(reason));
  return pod.status?.podIP !== undefined || hasEnded(pod) || pod.metadata.deletionTimestamp !== undefined || isBlocked;
}

/**
 * Waits until running containers have set up their signal handlers: the kernel drops a SIGTERM for a first process
 * without a handler. Nothing reports when the handler is set up.
 */
async function waitForSignalHandlers(pod: Pod | undefined): Promise<void> {
  if (allContainerStatuses(pod?.status).some(({ state }) => state?.running)) await pause(SIGNAL_HANDLER_SETUP_MS);
}

const isUpdate = ({ afterwards }: PodCase) => afterwards?.kind === "apply objects" || afterwards?.kind === "annotate";

/** Creates, changes or removes objects of a case in the namespace of its side. */
async function useObjects(
  { bed: { plane }, side }: CaseRun,
  verb: "apply" | "delete",
  items: PodCase["objects"] = [],
): Promise<void> {
  if (items.length === 0) return;
  const input = withNames(side, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  const more = verb === "delete" ? ["--ignore-not-found"] : [];
  await plane.kubectl([verb, "--filename=-", `--namespace=${side.namespace}`, ...more], { input });
}

/** Waits until the controller has bound these claims. */
async function waitUntilBound({ bed: { plane }, side }: CaseRun, claims: readonly string[] = []): Promise<void> {
  if (claims.length === 0) return;
  const names = claims.map((name) => `persistentvolumeclaim/${name}`);
  const condition = ["--for=jsonpath={.status.phase}=Bound", "--timeout=180s"];
  await plane.kubectl(["wait", ...names, ...condition, `--namespace=${side.namespace}`]);
}

/** The pod of a case as it is created on a side. */
export function manifestOf(side: NamesInManifest, podCase: PodCase): Pod {
  const { nodeName, namespace } = side;
  const { labels, annotations } = podCase;
  const { metadata, spec, ...rest } = barePod(podCase.name, podCase.container, {
    // More than a busy machine needs to stop a container that handles SIGTERM.
    terminationGracePeriodSeconds: 30,
    ...podCase.spec,
  });
  const text = JSON.stringify({
    ...rest,
    // The label is a constant, because a pod's name may be longer than a label value.
    metadata: {
      ...metadata,
      namespace,
      labels: { app: "differential", ...labels },
      ...(annotations && { annotations }),
    },
    spec: {
      ...spec,
      ...(podCase.isStatic === true || spec.nodeName !== undefined
        ? {}
        : { nodeSelector: { "kubernetes.io/hostname": nodeName } }),
      ...(podCase.afterwards?.kind === "taint the node"
        ? {}
        : { tolerations: [{ key: taint.key, operator: "Exists" }] }),
    },
  });
  return JSON.parse(withNames(side, text)) as Pod;
}

/** Replaces the placeholders of a side's names. */
function withNames(side: NamesInManifest, text: string): string {
  const replacements = [
    [REGISTRY, side.registry],
    [PRIVATE_REGISTRY, side.privateRegistry],
    [NODE_NAME, side.nodeName],
    [SIDE_NAMESPACE, side.namespace],
    [IMAGE_BY_DIGEST, side.imageByDigest],
    [HOST_FOLDER, side.hostFolder],
    [HOST_SOCKET, side.hostSocket],
  ] as const;
  return replacements.reduce((before, [common, name]) => before.replaceAll(common, name), text);
}

type NamesInManifest = Pick<
  Side,
  "registry" | "privateRegistry" | "imageByDigest" | "nodeName" | "namespace" | "hostFolder" | "hostSocket"
>;

async function createPod({ bed, side }: CaseRun, podCase: PodCase): Promise<void> {
  const pod = manifestOf(side, podCase);
  if (podCase.isStatic === true) await putManifest(side, podCase.name, JSON.stringify(pod));
  else await bed.kube.create(pods(side.namespace), pod);
}

async function applyChange(run: CaseRun, { name, afterwards }: PodCase): Promise<void> {
  const {
    bed: { kube, plane },
    side,
    watched,
  } = run;
  if (afterwards?.kind === "wait") return;
  if (afterwards?.kind === "apply objects") return await useObjects(run, "apply", afterwards.objects);
  if (afterwards?.kind === "annotate") {
    await plane.kubectl(["annotate", "pod", name, `--namespace=${side.namespace}`, afterwards.annotation ?? ""]);
    return;
  }
  if (afterwards?.kind === "debug") {
    await plane.kubectl(["debug", name, `--namespace=${side.namespace}`, ...(afterwards.debug ?? [])]);
    return;
  }
  if (afterwards?.kind === "end the sandbox") return await side.killSandbox(watched.pod(name)?.metadata.uid ?? "");
  if (afterwards?.kind === "change the image") {
    const body = { spec: { containers: [{ name: "main", image: NUMERIC_USER_IMAGE }] } };
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

async function removePod({ bed: { kube }, side, watched }: CaseRun, podCase: PodCase): Promise<void> {
  if (podCase.isStatic === true) return await putManifest(side, podCase.name, undefined);
  if (!watched.isThere(podCase.name)) return;
  const { gracePeriodSeconds } = podCase;
  await kube.delete(pods(side.namespace), podCase.name, gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds });
}
