/** The parts of an image name in a pod spec. */
export interface ImageReference {
  /** Without tag and digest, as written: `busybox`, `registry.example:5000/team/app`. */
  readonly name: string;
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

const component = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
const label = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
const domain = `(?:${label}(?:\\.${label})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?`;
const digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
const pattern = new RegExp(
  `^((?:${domain}/)?${component}(?:/${component})*)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(${digest}))?$`,
);
const MAX_NAME_LENGTH = 255;

/**
 * Parses an image name; undefined for an invalid one, such as one with capital letters in its path. A bare name of 64
 * hexadecimal digits is invalid too, since it could be an image id. Rule: the grammar of distribution/reference.
 */
export function parseImageReference(text: string): ImageReference | undefined {
  if (text.length > 1024 || /^[a-f0-9]{64}$/.test(text)) return undefined;
  const parts = pattern.exec(text);
  const name = parts?.[1];
  if (name === undefined || name.length > MAX_NAME_LENGTH) return undefined;
  return { name, tag: parts?.[2], digest: parts?.[3] };
}

/** The kubelet's message for a name that {@link parseImageReference} rejects. */
export function describeInvalidReference(text: string): string {
  const message = "invalid reference format";
  const [first = "", ...others] = text.split("/");
  const isHost = /[.:]/.test(first) || first === "localhost" || first !== first.toLowerCase();
  const path = others.length > 0 && isHost ? others.join("/") : text;
  const repository = path.split(":")[0] ?? "";
  return repository === repository.toLowerCase()
    ? message
    : `${message}: repository name (${repository}) must be lowercase`;
}
