/** The parts of an image's name as a pod has it. */
export interface ImageReference {
  /** Without tag and digest, as it was written: `busybox`, `registry.example:5000/team/app`. */
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
const longestName = 255;

/**
 * Takes an image's name apart; undefined when it is none, such as one with capital letters in its path. A bare name of 64
 * hexadecimal digits is no name either: it would be taken for an image id. Rule: the grammar of distribution/reference.
 */
export function parseImageReference(text: string): ImageReference | undefined {
  if (text.length > 1024 || /^[a-f0-9]{64}$/.test(text)) return undefined;
  const parts = pattern.exec(text);
  const name = parts?.[1];
  if (name === undefined || name.length > longestName) return undefined;
  return { name, tag: parts?.[2], digest: parts?.[3] };
}

/** What is wrong with a name that {@link parseImageReference} does not take, as the kubelet says it. */
export function whyNoReference(text: string): string {
  const wrong = "invalid reference format";
  const [first = "", ...others] = text.split("/");
  const isHost = /[.:]/.test(first) || first === "localhost" || first !== first.toLowerCase();
  const path = others.length > 0 && isHost ? others.join("/") : text;
  const repository = path.split(":")[0] ?? "";
  return repository === repository.toLowerCase()
    ? wrong
    : `${wrong}: repository name (${repository}) must be lowercase`;
}
