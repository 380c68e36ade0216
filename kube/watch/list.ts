import type { ListMeta } from "../../proto/kubernetes/gen/types.ts";
import { KubeError } from "../error.ts";
import { DEFAULT_DEADLINE_MS, type RequestOptions } from "../request-options.ts";
import { type KubeObject, pathOf, type Resource, type Selector } from "../resource.ts";
import type { KubeConnection } from "../transport/connection.ts";

export interface KubeList<T extends KubeObject> {
  readonly items: readonly T[];
  /** A watch that starts at this resourceVersion misses nothing. */
  readonly resourceVersion: string;
}

const PAGE_SIZE = 500;

/**
 * Lists everything that the selector matches, in pages. If the continue token expires (410), it lists once more without
 * paging, which cannot expire. If a page is too large for us, it halves the page size. Rejects with `KubeError`.
 */
export async function listAll<T extends KubeObject>(
  connection: KubeConnection,
  resource: Resource<T>,
  selector: Selector,
  options: RequestOptions = {},
): Promise<KubeList<T>> {
  try {
    return await listPages(connection, resource, selector, PAGE_SIZE, options);
  } catch (error) {
    if (!(error instanceof KubeError && error.code === "GONE")) throw error;
    return await listPages(connection, resource, selector, undefined, options);
  }
}

async function listPages<T extends KubeObject>(
  connection: KubeConnection,
  resource: Resource<T>,
  selector: Selector,
  pageSize: number | undefined,
  options: RequestOptions,
): Promise<KubeList<T>> {
  const items: T[] = [];
  const path = pathOf(resource);
  let limit = pageSize;
  const requestPage = async (token: string | undefined) => {
    const page = {
      ...selector,
      ...(limit !== undefined && { limit: String(limit) }),
      ...(token !== undefined && { continue: token }),
    };
    const answer = await connection.request({
      method: "GET",
      path,
      query: page,
      deadlineMs: DEFAULT_DEADLINE_MS,
      ...options,
    });
    if (!isPage<T>(answer)) throw new KubeError("NOT_JSON", `GET ${path}: the answer is not a list`);
    // Go writes an empty list as null now and then.
    items.push(...(answer.items ?? []));
    return answer.metadata;
  };
  const requestPageShrinking = async (token: string | undefined): Promise<Page<T>["metadata"]> => {
    try {
      return await requestPage(token);
    } catch (error) {
      const isTooLarge = error instanceof KubeError && error.code === "TOO_LARGE";
      if (!isTooLarge || limit === undefined || limit === 1) throw error;
      limit = Math.floor(limit / 2);
      return await requestPageShrinking(token);
    }
  };
  const first = await requestPageShrinking(undefined);
  for (let token = first.continue; token; ) token = (await requestPageShrinking(token)).continue;
  return { items, resourceVersion: first.resourceVersion };
}

interface Page<T> {
  readonly metadata: ListMeta & { readonly resourceVersion: string };
  readonly items: readonly T[] | null;
}

function isPage<T>(answer: unknown): answer is Page<T> {
  const { metadata, items } = (answer ?? {}) as Partial<Page<T>>;
  const isList = items === null || (Array.isArray(items) && items.every(isKubeObject));
  return isList && typeof metadata?.resourceVersion === "string";
}

/** Whether the value has `metadata.name`, as every API object has. The consumer checks the rest. */
export function isKubeObject(value: unknown): value is KubeObject & { readonly metadata: { readonly name: string } } {
  const { metadata } = (value ?? {}) as { readonly metadata?: { readonly name?: unknown } | null };
  return typeof metadata?.name === "string";
}
