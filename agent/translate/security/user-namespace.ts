import { type IDMapping, NamespaceMode, UserNamespace } from "../../../proto/cri/gen/api.ts";
import { USER_NAMESPACE_FILE } from "../../../proto/kubelet/pod-dirs.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { TranslateError } from "../translate-error.ts";
import { podDir } from "../volumes/paths.ts";

/** A range of host ids, for users and groups alike, that the ids of a pod from 0 on are mapped to. */
export interface IdRange {
  readonly first: number;
  readonly length: number;
}

/** Whether the pod runs in its own user namespace (`hostUsers: false`). */
export function usesUserNamespace({ spec }: Pick<Pod, "spec">): boolean {
  return spec.hostUsers === false;
}

/** The kubelet's file that records the id range of a pod, relative to the root directory. */
export function userNamespaceFile(uid: string): string {
  return `${podDir(uid)}/${USER_NAMESPACE_FILE}`;
}

/** Serialises an id range as the kubelet does. */
export function formatUserNamespace({ first, length }: IdRange): string {
  const mappings = [{ hostId: first, containerId: 0, length }];
  return JSON.stringify({ uidMappings: mappings, gidMappings: mappings });
}

/** Parses that file. Returns undefined for content that no kubelet writes, such as a torn or foreign file. */
export function parseUserNamespace(text: string): IdRange | undefined {
  const { uidMappings, gidMappings } = parseObject(text);
  const [uidRange, gidRange] = [singleRange(uidMappings), singleRange(gidMappings)];
  if (uidRange === undefined || gidRange === undefined) return undefined;
  return uidRange.first === gidRange.first && uidRange.length === gidRange.length ? uidRange : undefined;
}

function parseObject(text: string): { readonly uidMappings?: unknown; readonly gidMappings?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    // Treat invalid JSON like an object without mappings.
    return {};
  }
}

/** The mapping must include the pod's root, and must not map it to the node's root. */
function singleRange(mappings: unknown): IdRange | undefined {
  if (!Array.isArray(mappings) || mappings.length !== 1) return undefined;
  const { hostId, containerId, length } = (mappings[0] ?? {}) as Readonly<Record<string, unknown>>;
  if (containerId !== 0 || !isId(hostId) || !isId(length) || hostId + length > 2 ** 32) return undefined;
  return { first: hostId, length };
}

const isId = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value > 0;

/** The CRI mapping of one pod, for its mounts and its namespaces. */
export function idMappings({ first, length }: IdRange): IDMapping[] {
  return [{ hostId: first, containerId: 0, length }];
}

/** The user namespace of a pod's sandbox and containers; undefined when the pod needs one and has no range yet. */
export function userNamespaceOf(pod: Pod, ids: IdRange | undefined): UserNamespace | undefined {
  if (!usesUserNamespace(pod)) return UserNamespace.fromPartial({ mode: NamespaceMode.NODE });
  if (ids === undefined) return undefined;
  return UserNamespace.fromPartial({ mode: NamespaceMode.POD, uids: idMappings(ids), gids: idMappings(ids) });
}

/**
 * Throws `TranslateError`, in the kubelet's wording, when the runtime handler does not support user namespaces.
 * `support` is empty for a runtime that is too old to report it.
 */
export function checkUserNamespaceSupport(handler: string, support: ReadonlyMap<string, boolean>): void {
  if (support.get(handler) === true) return;
  const subject = handler === "" ? "runtime does" : `RuntimeClass handler ${JSON.stringify(handler)} does`;
  const isUnknown = support.size > 0 && !support.has(handler);
  const detail = isUnknown ? `: the handler ${JSON.stringify(handler)} is not known` : "";
  throw new TranslateError(
    "CreatePodSandboxError",
    `can't set \`spec.hostUsers: false\`, ${subject} not support user namespaces${detail}`,
  );
}
