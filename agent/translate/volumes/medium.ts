import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { HUGE_PAGES_PREFIX, isHugePages, type ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import { parseQuantity, QuantityError, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import { mountError } from "./mount-error.ts";

/** What an emptyDir is stored in. */
export type Medium =
  | { readonly kind: "disk" }
  | { readonly kind: "memory" }
  | { readonly kind: "huge pages"; readonly pageBytes: number };

const HUGE_PAGES = "HugePages";

/**
 * The medium of an emptyDir. The page size of `HugePages` is the one that the pod requests; that of `HugePages-2Mi` has to
 * be among those that it requests. Throws `TranslateError` in the kubelet's words if the pod requests none, or several.
 * https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/
 */
export function mediumOf({ spec }: Pick<Pod, "spec">, { name, emptyDir }: Pick<Volume, "name" | "emptyDir">): Medium {
  const medium = emptyDir?.medium ?? "";
  if (medium === "") return { kind: "disk" };
  if (medium === "Memory") return { kind: "memory" };
  const size = sizeIn(medium);
  if (size === undefined) throw mountError({ name }, `unknown storage medium ${JSON.stringify(medium)}`);
  const wanted = size === "" ? undefined : pageBytesOf(size, name);
  const requested = [...new Set(requestedPages(spec).map((each) => pageBytesOf(each, name)))];
  const usable = wanted === undefined ? requested : requested.filter((bytes) => bytes === wanted);
  if (usable.length > 1)
    throw mountError({ name }, `medium: ${medium} can't be used if container requests multiple huge page sizes`);
  const [pageBytes] = usable;
  if (pageBytes === undefined)
    throw mountError(
      { name },
      `medium ${medium}: hugePages storage requested, but there is no resource request for huge pages`,
    );
  return { kind: "huge pages", pageBytes };
}

/** Of `HugePages-2Mi` it is `2Mi`, of `HugePages` empty; undefined for any other medium. */
function sizeIn(medium: string): string | undefined {
  if (medium === HUGE_PAGES) return "";
  return medium.startsWith(`${HUGE_PAGES}-`) ? medium.slice(HUGE_PAGES.length + 1) : undefined;
}

/** The page sizes in the requests of the pod and its containers. Ephemeral containers have none. */
function requestedPages({ containers, initContainers = [], resources }: Pod["spec"]): readonly string[] {
  const lists: readonly (ResourceList | undefined)[] = [
    resources?.requests,
    ...[...containers, ...initContainers].map((container) => container.resources?.requests),
  ];
  return lists
    .flatMap((requests) => Object.keys(requests ?? {}))
    .filter(isHugePages)
    .map((resource) => resource.slice(HUGE_PAGES_PREFIX.length));
}

function pageBytesOf(size: string, name: string): number {
  try {
    return toNumber(parseQuantity(size));
  } catch (error) {
    if (error instanceof QuantityError) throw mountError({ name }, error.message);
    throw error;
  }
}
