/** What a request is authorized for: a verb on subresources of this node. The first that is allowed wins. */
export interface RequestAttributes {
  /** Empty for a method without a verb, which no rule but `*` allows. */
  readonly verb: string;
  readonly subresources: readonly string[];
  /** The decoded path of the request. */
  readonly path: string;
}

const VERBS: Readonly<Record<string, string>> = {
  POST: "create",
  GET: "get",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/**
 * Reading rights do not suffice for these: they run programs in containers or reach their ports (KEP-2862), or return what
 * is in memory, Secrets among it.
 */
const CREATE_PATHS = ["/exec", "/attach", "/run", "/portForward", "/debug/pprof/heap"];

const FINE_GRAINED: readonly (readonly [path: string, subresource: string])[] = [
  ["/pods", "pods"],
  ["/healthz", "healthz"],
  ["/configz", "configz"],
  ["/runningpods", "pods"],
];

const SUBRESOURCES: readonly (readonly [path: string, subresource: string])[] = [
  ["/stats", "stats"],
  ["/metrics", "metrics"],
  ["/logs", "log"],
  ["/checkpoint", "checkpoint"],
  ["/statusz", "statusz"],
  ["/flagz", "configz"],
];

/**
 * The verb and the subresources of `nodes` by the method and the decoded path. The kubelet maps a streaming request by GET
 * to `get`, which is the right to read `nodes/proxy`; here all of `CREATE_PATHS` need `create`.
 * Rule: GetRequestAttributes in pkg/kubelet/server/auth.go.
 */
export function requestAttributesOf(method: string, path: string): RequestAttributes {
  const subresourceIn = (table: typeof SUBRESOURCES) => table.find(([folder]) => isSubpath(path, folder))?.[1];
  const fineGrained = subresourceIn(FINE_GRAINED);
  const subresource = subresourceIn(SUBRESOURCES) ?? "proxy";
  const needsCreate = CREATE_PATHS.some((folder) => isSubpath(path, folder));
  return {
    verb: needsCreate ? "create" : (VERBS[method] ?? ""),
    subresources: fineGrained === undefined ? [subresource] : [fineGrained, subresource],
    path,
  };
}

function isSubpath(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
