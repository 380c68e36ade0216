import type { Runtime } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import { ContainerState, PodSandboxState } from "../../../proto/cri/gen/api.ts";
import {
  containerNameLabel,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from "../../../proto/kubernetes/well-known-names.ts";
import { createImageNames } from "./image-names.ts";

/** The properties of a container or sandbox that never change. */
export interface IndexedContainer {
  readonly id: string;
  /** Empty for a sandbox. */
  readonly name: string;
  /** The name of the image, or its id if the runtime does not know the image any more. */
  readonly image: string;
  readonly createdAtMs: number;
  readonly pod: { readonly name: string; readonly namespace: string; readonly uid: string };
}

/** Everything that runs, as the runtime lists it. */
export interface RunningContainers {
  readonly sandboxes: readonly IndexedContainer[];
  /** With the sandbox of each. */
  readonly containers: readonly (IndexedContainer & { readonly sandboxId: string })[];
}

/** The pods' sandboxes and containers by their ids. */
export interface ContainerIndex {
  /** Asks the runtime. Rejects with `CriError`. */
  list(): Promise<RunningContainers>;
  /**
   * Containers and sandboxes by their ids, also of some that have ended. The runtime is asked only if one of `ids` is new:
   * a cgroup has the id of its container in its name, and what it is does not change. An id that is none of what runs
   * counts as new again after ten seconds. The first call asks in any case. Rejects with `CriError`.
   */
  byId(ids: readonly string[]): Promise<ReadonlyMap<string, IndexedContainer & { readonly isSandbox: boolean }>>;
}

/** No client waits longer for a page. */
export const RUNTIME_DEADLINE_MS = 10_000;
const NS_PER_MS = 1_000_000n;
/** A cgroup may outlive its container. */
const UNKNOWN_MS = 10_000;

export function createContainerIndex(
  runtime: Pick<Runtime, "listContainers" | "listPodSandbox" | "imageStatus">,
  clock: Pick<Clock, "monotonicMs">,
): ContainerIndex {
  const imageNames = createImageNames(runtime, RUNTIME_DEADLINE_MS);
  let known: ReadonlyMap<string, IndexedContainer & { readonly isSandbox: boolean }> | undefined;
  /** When the runtime was asked for the ids that are none of what runs. */
  let unknownAtMs: ReadonlyMap<string, number> = new Map();

  async function list(): Promise<RunningContainers> {
    const running = await listRunning();
    const all = [
      ...running.sandboxes.map((each) => ({ ...each, isSandbox: true })),
      ...running.containers.map((each) => ({ ...each, isSandbox: false })),
    ];
    known = new Map(all.map((each) => [each.id, each]));
    return running;
  }

  async function listRunning(): Promise<RunningContainers> {
    const options = { deadlineMs: RUNTIME_DEADLINE_MS };
    const [sandboxes, containers] = await Promise.all([
      runtime.listPodSandbox({}, options),
      runtime.listContainers({}, options),
    ]);
    const running = containers.filter(({ state }) => state === ContainerState.CONTAINER_RUNNING);
    const names = await imageNames.of(running.map(({ image }) => image?.image ?? ""));
    return {
      sandboxes: sandboxes
        .filter(({ state }) => state === PodSandboxState.SANDBOX_READY)
        .map(({ id, labels, createdAt, metadata }) => ({
          id,
          name: "",
          image: "",
          createdAtMs: msOf(createdAt),
          pod: { ...podOf(labels), ...(metadata && { uid: metadata.uid }) },
        })),
      containers: running.map(({ id, labels, createdAt, image: { image = "" } = {}, metadata, podSandboxId }) => ({
        id,
        sandboxId: podSandboxId,
        name: labels[containerNameLabel] ?? metadata?.name ?? "",
        image: names.get(image) ?? image,
        createdAtMs: msOf(createdAt),
        pod: podOf(labels),
      })),
    };
  }

  return {
    list,
    async byId(ids) {
      const nowMs = clock.monotonicMs();
      const isNew = (id: string) =>
        known?.has(id) !== true && nowMs - (unknownAtMs.get(id) ?? Number.NEGATIVE_INFINITY) >= UNKNOWN_MS;
      if (known === undefined || ids.some(isNew)) {
        await list();
        unknownAtMs = new Map(ids.filter((id) => known?.has(id) !== true).map((id) => [id, nowMs]));
      }
      return known ?? new Map();
    },
  };
}

const msOf = (ns: bigint) => Number(ns / 1000n) / Number(NS_PER_MS / 1000n);

function podOf(labels: Readonly<Record<string, string>>): IndexedContainer["pod"] {
  return {
    name: labels[podNameLabel] ?? "",
    namespace: labels[podNamespaceLabel] ?? "",
    uid: labels[podUidLabel] ?? "",
  };
}
