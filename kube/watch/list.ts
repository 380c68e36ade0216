import type { ListMeta } from "../../proto/kubernetes/gen/types.ts";
import { KubeError } from "../error.ts";
import { type KubeObject, pathOf, type Resource, type Selector } from "../resource.ts";
import type { Connection, Lane } from "../transport/connection.ts";

/** How long a call may take, who may end it, and which lane it takes. */
export interface CallOptions {
  /** 30 s if left out; of a list, for each page. */
  readonly deadlineMs?: number;
  readonly signal?: AbortSignal;
  /** `main` if left out. */
  readonly lane?: Lane;
  /** Asked whenever the lane has a turn: whether this call goes before those that wait longer. */
  readonly isUrgent?: () => boolean;
}

export interface KubeList<T extends KubeObject> {
  readonly items: readonly T[];
  /** The state of the cluster that the list shows; a watch from here on misses nothing. */
  readonly resourceVersion: string;
}

export const DEADLINE_MS = 30_000;
const PAGE = 500;

/**
 * Everything that the selector matches, read in pages. A list that takes longer than the server remembers its beginning (410) is
 * begun once more, in one piece, which cannot grow old. Where objects are so large that a page of them is refused, pages become smaller.
 * Rejects with `KubeError`.
 */
export async function listAll<T extends KubeObject>(
  connection: Connection,
  resource: Resource<T>,
  selector: Selector,
  options: CallOptions = {},
): Promise<KubeList<T>> {
  try {
    return await listPages(connection, resource, selector, PAGE, options);
  } catch (error) {
    if (!(error instanceof KubeError && error.code === "GONE")) throw error;
    return await listPages(connection, resource, selector, undefined, options);
  }
}

async function listPages<T extends KubeObject>(
  connection: Connection,
  resource: Resource<T>,
  selector: Selector,
  mostAtOnce: number | undefined,
  options: CallOptions,
): Promise<KubeList<T>> {
  const items: T[] = [];
  const path = pathOf(resource);
  let limit = mostAtOnce;
  const askOnce = async (token: string | undefined) => {
    const page = {
      ...selector,
      ...(limit !== undefined && { limit: String(limit) }),
      ...(token !== undefined && { continue: token }),
    };
    const answer = await connection.request({ method: "GET", path, query: page, deadlineMs: DEADLINE_MS, ...options });
    if (!isPage<T>(answer)) throw new KubeError("NOT_JSON", `GET ${path}: the answer is not a list`);
    // Go writes an empty list as null now and then.
    items.push(...(answer.items ?? []));
    return answer.metadata;
  };
  const ask = async (token: string | undefined): Promise<Page<T>["metadata"]> => {
    try {
      return await askOnce(token);
    } catch (error) {
      const isTooLarge = error instanceof KubeError && error.code === "TOO_LARGE";
      if (!isTooLarge || limit === undefined || limit === 1) throw error;
      limit = Math.floor(limit / 2);
      return await ask(token);
    }
  };
  const first = await ask(undefined);
  for (let token = first.continue; token; ) token = (await ask(token)).continue;
  return { items, resourceVersion: first.resourceVersion };
}

interface Page<T> {
  readonly metadata: ListMeta & { readonly resourceVersion: string };
  readonly items: readonly T[] | null;
}

function isPage<T>(answer: unknown): answer is Page<T> {
  const { metadata, items } = (answer ?? {}) as Partial<Page<T>>;
  const isList = items === null || (Array.isArray(items) && items.every(isObject));
  return isList && typeof metadata?.resourceVersion === "string";
}

/** Whether this may be called an object of the API: everything else about it is for its reader to judge. */
export function isObject(value: unknown): value is KubeObject & { readonly metadata: { readonly name: string } } {
  const { metadata } = (value ?? {}) as { readonly metadata?: { readonly name?: unknown } | null };
  return typeof metadata?.name === "string";
}
