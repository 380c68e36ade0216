/** Where a static pod was read from. */
export type StaticPodSource =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "http"; readonly url: string };

/** What a static pod's uid depends on besides its manifest. */
export interface StaticPodOrigin {
  readonly nodeName: string;
  readonly source: StaticPodSource;
}

/** The part of a static pod's hash that says where it comes from. Rule: applyDefaults in the kubelet's pkg/kubelet/config/common.go. */
export function hashedOrigin({ nodeName, source }: StaticPodOrigin): string {
  return source.kind === "file" ? `host:${nodeName}file:${source.path}` : `url:${source.url}`;
}
