import type { Files } from "../../host/fs/files.ts";
import { isObject } from "../../proto/is-object.ts";
import {
  networksAnnotation,
  podAnnotationsCapability,
  sourceAnnotation,
} from "../../proto/kubernetes/well-known-names.ts";
import type { CacheEntry } from "../cache-entry.ts";
import type { AddSignals, Attachment } from "../chain.ts";
import type { NetworkConf } from "../conf.ts";
import { CniError } from "../error.ts";
import type { Cni } from "../network.ts";
import type { CniResult } from "../result.ts";
import { hasCheck } from "../version.ts";
import { type MoveDefaultRouteDeps, moveDefaultRoute, type PodAttachment } from "./default-route.ts";
import { loadDefinition, type NetworkDefinition, type NetworkFolders } from "./network-definition.ts";
import { type NetworkSelection, parseNetworksAnnotation } from "./network-selection.ts";
import { formatNetworkStatus, networkStatusOf } from "./network-status.ts";
import {
  defaultCapabilityArgs,
  type SecondaryNetwork,
  secondaryAttachment,
  secondaryNetworksOf,
  toSecondaryNetwork,
} from "./secondary-network.ts";

/** A pod as the container runtime names it in CNI_ARGS. */
export interface NetworkPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** A static pod has a mirror pod at the API server, with another uid, or none yet. */
  readonly isStatic: boolean;
}

/** What the API server has to do with the secondary networks of a pod. Every method rejects with `CniError`. */
export interface NetworkDefinitions {
  read(reference: Pick<NetworkDefinition, "namespace" | "name">, signal: AbortSignal): Promise<NetworkDefinition>;
  /**
   * Writes the annotation `k8s.v1.cni.cncf.io/network-status` of a pod. A pod that is gone is success. For a static pod it does not
   * wait: the mirror pod gets the annotation when it exists.
   */
  publishStatus(pod: NetworkPod, status: string, signal: AbortSignal): Promise<void>;
}

export interface PodNetworksDeps extends MoveDefaultRouteDeps, NetworkFolders {
  readonly cni: Pick<Cni, "add" | "del" | "check">;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "list" | "read">;
  readonly definitions: NetworkDefinitions;
}

/**
 * ADD of the default network and then of those that the pod's annotation selects, in its order; resolves with the result of the
 * default one. If anything fails, what was made is deleted in reverse order. All definitions are read before the first ADD,
 * so that one that is missing costs no plugin call. Rejects as `Cni`, and with code 7 for an annotation or a definition that
 * cannot be used.
 */
export async function addPodNetworks(
  deps: PodNetworksDeps,
  conf: NetworkConf,
  attachment: Attachment,
  signals: AddSignals,
): Promise<CniResult> {
  const { cni } = deps;
  const { signal, undoSignal } = signals;
  const selections = readsAnnotation(conf) ? [] : await readSelections(deps, conf, attachment, signal);
  const secondaries = selections.map(({ network }) => network);
  const capabilityArgs = defaultCapabilityArgs(conf, attachment.capabilityArgs, secondaries);
  const own: Attachment = { ...attachment, capabilityArgs };
  const { result } = await cni.add(conf, own, signal, undoSignal);
  if (secondaries.length === 0) return result;
  const made: SecondaryNetwork[] = [];
  try {
    const attached: PodAttachment[] = [{ name: conf.name, conf, ifName: own.ifName, result, defaultRoute: undefined }];
    for (const { network, defaultRoute } of selections) {
      const { name } = network;
      const adding = cni.add(network.conf, secondaryAttachment(attachment, network), signal, undoSignal);
      const added = await adding.catch(toFailureOf(name));
      made.push(network);
      attached.push({ ...network, result: added.result, defaultRoute });
    }
    const routed = await moveDefaultRoute(deps, attachment, attached);
    const statuses = routed.map((each, index) => networkStatusOf(each.name, each.result, index === 0));
    await deps.definitions.publishStatus(podOf(attachment), formatNetworkStatus(statuses), signal);
    // The runtime does not wait for the answer any more.
    if (signal.aborted && !undoSignal.aborted) throw signal.reason;
  } catch (error) {
    if (!undoSignal.aborted) await undo(deps, conf, own, made, undoSignal);
    throw error;
  }
  return result;
}

/**
 * DEL of the secondary networks of a pod in reverse order; that of the default network is the caller's, and follows. Each is deleted,
 * whatever becomes of the others; rejects with the first failure.
 */
export async function deleteSecondaryNetworks(
  { cni }: { readonly cni: Pick<Cni, "del"> },
  networks: readonly SecondaryNetwork[],
  attachment: Attachment,
  signal: AbortSignal,
): Promise<void> {
  const failures: CniError[] = [];
  for (const network of networks.toReversed())
    try {
      await cni.del(network.conf.name, secondaryAttachment(attachment, network), network.conf, signal);
    } catch (error) {
      if (!(error instanceof CniError)) throw error;
      failures.push(error);
    }
  if (failures[0] !== undefined) throw failures[0];
}

/** CHECK of the secondary networks of a pod, in their order, without those whose version has none. Rejects with the first failure. */
export async function checkSecondaryNetworks(
  { cni }: Pick<PodNetworksDeps, "cni">,
  entry: CacheEntry,
  attachment: Attachment,
  signal: AbortSignal,
): Promise<void> {
  for (const network of secondaryNetworksOf(entry))
    if (hasCheck(network.conf.cniVersion))
      await cni.check(network.conf, secondaryAttachment(attachment, network), signal);
}

/** Multus in its two forms: plugins that attach the selected networks themselves. */
const ANNOTATION_READERS: ReadonlySet<string> = new Set(["multus", "multus-shim"]);

const readsAnnotation = ({ plugins }: NetworkConf) => plugins.some(({ type }) => ANNOTATION_READERS.has(type));

interface SelectedNetwork {
  readonly network: SecondaryNetwork;
  readonly defaultRoute: NetworkSelection["defaultRoute"];
}

async function readSelections(
  { files, chainDir, confDir, definitions }: PodNetworksDeps,
  defaultConf: NetworkConf,
  attachment: Attachment,
  signal: AbortSignal,
): Promise<readonly SelectedNetwork[]> {
  const { namespace } = podOf(attachment);
  const selected: SelectedNetwork[] = [];
  for (const selection of parseNetworksAnnotation(annotationOf(attachment), { namespace, ifName: attachment.ifName })) {
    const definition = await definitions.read(selection, signal);
    const folders = { chainDir, confDir };
    const conf = await loadDefinition(files, folders, definition, selection.cniArgs, defaultConf);
    const network = toSecondaryNetwork(selection, conf, attachment.capabilityArgs);
    const { defaultRoute } = selection;
    selected.push({ network, defaultRoute });
  }
  return selected;
}

/** Deletes what an ADD that has failed has made. The default network's cache entry stays while it names what exists. */
async function undo(
  { cni }: PodNetworksDeps,
  conf: NetworkConf,
  attachment: Attachment,
  made: readonly SecondaryNetwork[],
  signal: AbortSignal,
): Promise<void> {
  try {
    await deleteSecondaryNetworks({ cni }, made, attachment, signal);
    await cni.del(conf.name, attachment, conf, signal);
  } catch {
    // The failure of ADD says more. The runtime calls DEL, which fails again if this stays.
  }
}

/** Whether a pod asks for more than its default network, perhaps by an annotation that cannot be read. */
export function selectsNetworks(attachment: Attachment): boolean {
  return annotationOf(attachment).trim() !== "";
}

function annotationOf(attachment: Attachment): string {
  const annotation = annotationsOf(attachment)[networksAnnotation];
  return typeof annotation === "string" ? annotation : "";
}

/** The annotations that the runtime hands over; all of them are texts. */
function annotationsOf({ capabilityArgs }: Attachment): Readonly<Record<string, unknown>> {
  const annotations = capabilityArgs[podAnnotationsCapability];
  return isObject(annotations) ? annotations : {};
}

/** The failure of a plugin with the network that it is about: the event of the pod shows no more than the text. */
function toFailureOf(network: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof CniError)) throw error;
    const { code, message, details, plugin } = error;
    const words = plugin === undefined ? message : `${plugin}: ${message}`;
    throw new CniError(code, `the secondary network ${network}: ${words}`, { details, cause: error });
  };
}

function podOf(attachment: Attachment): NetworkPod {
  const { args } = attachment;
  return {
    namespace: args.get("K8S_POD_NAMESPACE") ?? "",
    name: args.get("K8S_POD_NAME") ?? "",
    uid: args.get("K8S_POD_UID") ?? "",
    isStatic: (annotationsOf(attachment)[sourceAnnotation] ?? "api") !== "api",
  };
}
