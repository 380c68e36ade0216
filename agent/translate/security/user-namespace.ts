import { type IDMapping, NamespaceMode, UserNamespace } from "../../../proto/cri/gen/api.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { TranslateError } from "../translate-error.ts";
import { podFolder } from "../volumes/paths.ts";

/** The ids of the node, of users and of groups alike, that stand for those from 0 on in a pod. */
export interface IdRange {
  readonly first: number;
  readonly length: number;
}

/** Whether the pod is to have users of its own (`hostUsers: false`). */
export function hasOwnUsers({ spec }: Pick<Pod, "spec">): boolean {
  return spec.hostUsers === false;
}

/** Where the range of a pod is recorded, relative to the root directory; name and form are the kubelet's. */
export function userNamespaceFile(uid: string): string {
  return `${podFolder(uid)}/userns`;
}

/** What the file of a pod with this range says, as the kubelet writes it. */
export function formatUserNamespace({ first, length }: IdRange): string {
  const mappings = [{ hostId: first, containerId: 0, length }];
  return JSON.stringify({ uidMappings: mappings, gidMappings: mappings });
}

/** What such a file says; undefined for one that no kubelet has written: half of it may be gone, or its author is another one. */
export function parseUserNamespace(text: string): IdRange | undefined {
  const { uidMappings, gidMappings } = parseObject(text);
  const [ofUsers, ofGroups] = [onlyRange(uidMappings), onlyRange(gidMappings)];
  if (ofUsers === undefined || ofGroups === undefined) return undefined;
  return ofUsers.first === ofGroups.first && ofUsers.length === ofGroups.length ? ofUsers : undefined;
}

function parseObject(text: string): { readonly uidMappings?: unknown; readonly gidMappings?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    // No JSON is no object either.
    return {};
  }
}

/** Root has to be mapped, and may not be mapped to the node's root. */
function onlyRange(mappings: unknown): IdRange | undefined {
  if (!Array.isArray(mappings) || mappings.length !== 1) return undefined;
  const { hostId, containerId, length } = (mappings[0] ?? {}) as Readonly<Record<string, unknown>>;
  if (containerId !== 0 || !isId(hostId) || !isId(length) || hostId + length > 2 ** 32) return undefined;
  return { first: hostId, length };
}

const isId = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value > 0;

/** The mapping of one pod, as mounts and namespaces want it. */
export function idMappings({ first, length }: IdRange): IDMapping[] {
  return [{ hostId: first, containerId: 0, length }];
}

/** The users of a pod's sandbox and of its containers; undefined where a pod of its own users has no range yet. */
export function usersOf(pod: Pod, ids: IdRange | undefined): UserNamespace | undefined {
  if (!hasOwnUsers(pod)) return UserNamespace.fromPartial({ mode: NamespaceMode.NODE });
  if (ids === undefined) return undefined;
  return UserNamespace.fromPartial({ mode: NamespaceMode.POD, uids: idMappings(ids), gids: idMappings(ids) });
}

/**
 * Throws `TranslateError`, in the kubelet's words, where the runtime cannot give a pod users of its own. `told` is whether each of its
 * handlers can; one that is too old to tell names none.
 */
export function checkOwnUsers(handler: string, told: ReadonlyMap<string, boolean>): void {
  if (told.get(handler) === true) return;
  const who = handler === "" ? "runtime does" : `RuntimeClass handler ${JSON.stringify(handler)} does`;
  const isUnknown = told.size > 0 && !told.has(handler);
  const why = isUnknown ? `: the handler ${JSON.stringify(handler)} is not known` : "";
  throw new TranslateError(
    "CreatePodSandboxError",
    `can't set \`spec.hostUsers: false\`, ${who} not support user namespaces${why}`,
  );
}
