/**
 * Whether a client takes a media type, by its header `Accept`. As the kubelet's router: `application/*` is no match, and
 * `q` does not count. Rule: matchesAccept of go-restful.
 */
export function acceptsType(accept: string | undefined, type: string): boolean {
  if (accept === undefined || accept === "") return true;
  const ranges = accept.split(",").map((range) => range.split(";", 1)[0]?.trim());
  return ranges.includes("*/*") || ranges.includes(type);
}
