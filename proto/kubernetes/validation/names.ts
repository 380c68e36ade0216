import type { IntOrString } from "../gen/types.ts";
import { checkRange, errorIf, type FieldErrors } from "./checks.ts";
import { invalid, required } from "./field-error.ts";

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const searchDomain = /^[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*$/;
const qualifiedPart = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

const labelRule =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const subdomainRule =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const qualifiedRule =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/** Checks `value`, which may be a part of the user's text `shown`. */
function checkText(
  field: string,
  value: string,
  maxBytes: number,
  pattern: RegExp,
  rule: string,
  shown = value,
): FieldErrors {
  if (value.length > maxBytes) return [invalid(field, shown, `must be no more than ${maxBytes} bytes`)];
  return errorIf(!pattern.test(value), () => invalid(field, shown, rule));
}

/** An RFC 1123 label: the name of a container, a volume, a namespace. */
export function checkLabel(field: string, value: string): FieldErrors {
  return checkText(field, value, 63, label, labelRule);
}

/** An RFC 1123 subdomain: the name of a pod or of most other objects. */
export function checkSubdomain(field: string, value: string): FieldErrors {
  return checkText(field, value, 253, subdomain, subdomainRule);
}

/** A resolver's search domain, which may contain `_` and end in a dot. */
export function checkSearchDomain(field: string, value: string): FieldErrors {
  return value === "." ? [] : checkText(field, value.replace(/\.$/, ""), 253, searchDomain, subdomainRule);
}

/** A required name. */
export function checkRequired(
  field: string,
  value: string | undefined,
  check: (field: string, value: string) => FieldErrors = () => [],
): FieldErrors {
  return value ? check(field, value) : [required(field)];
}

/** An optional name. */
export function checkOptional(
  field: string,
  value: string | undefined,
  check: (field: string, value: string) => FieldErrors,
): FieldErrors {
  return value ? check(field, value) : [];
}

/** `name` or `domain/name`: the key of a label, an annotation or a resource. */
export function checkQualifiedName(field: string, value: string): FieldErrors {
  const parts = value.split("/");
  const [name = "", prefix] = parts.toReversed();
  if (parts.length > 2)
    return [invalid(field, value, "must be a name with an optional prefix, such as example.com/name")];
  return [
    ...(prefix === undefined ? [] : checkText(field, prefix, 253, subdomain, `prefix part: ${subdomainRule}`, value)),
    ...checkText(field, name, 63, qualifiedPart, `name part: ${qualifiedRule}`, value),
  ];
}

/** The value of a label, which may be empty. */
export function checkLabelValue(field: string, value: string): FieldErrors {
  return value === "" ? [] : checkText(field, value, 63, qualifiedPart, qualifiedRule);
}

/** An IANA service name: the name of a port. */
export function checkPortName(field: string, value: string): FieldErrors {
  return [
    ...errorIf(value.length > 15, () => invalid(field, value, "must be no more than 15 characters")),
    ...errorIf(!/^[-a-z0-9]+$/.test(value), () =>
      invalid(field, value, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
    ),
    ...errorIf(!/[a-z]/.test(value), () => invalid(field, value, "must contain at least one letter (a-z)")),
    ...errorIf(value.includes("--"), () => invalid(field, value, "must not contain consecutive hyphens")),
    ...errorIf(/^-|-$/.test(value), () => invalid(field, value, "must not begin or end with a hyphen")),
  ];
}

/** A port number from 1 to 65535. */
export function checkPortNumber(field: string, value: number): FieldErrors {
  return checkRange(field, value, 1, 65_535);
}

/** A port number, or the name of one of the container's ports. */
export function checkPort(field: string, value: IntOrString): FieldErrors {
  return typeof value === "number" ? checkPortNumber(field, value) : checkPortName(field, value);
}

/** Any printable ASCII except `=`; Kubernetes relaxed the rule for environment variables in 1.34. */
export function checkEnvName(field: string, value: string): FieldErrors {
  const isPrintable = /^[ -<>-~]+$/.test(value);
  return errorIf(!isPrintable, () =>
    invalid(field, value, "must consist only of printable ASCII characters other than '='"),
  );
}

/** The key of a ConfigMap or Secret. */
export function checkDataKey(field: string, value: string): FieldErrors {
  return [
    ...checkText(field, value, 253, /^[-._a-zA-Z0-9]+$/, "must consist of alphanumeric characters, '-', '_' or '.'"),
    ...errorIf(value === "." || value.startsWith(".."), () =>
      invalid(field, value, "must not be '.' or begin with '..'"),
    ),
  ];
}

/** A relative path that does not lead out of its directory. */
export function checkDescendingPath(field: string, value: string): FieldErrors {
  return [
    ...errorIf(value.startsWith("/"), () => invalid(field, value, "must be a relative path")),
    ...checkNoDotDot(field, value),
  ];
}

/** Like checkDescendingPath. In addition, names that begin with `..` are reserved for the volume itself. */
export function checkLocalPath(field: string, value: string): FieldErrors {
  const isReserved = value.startsWith("..") && !value.split("/").includes("..");
  return [
    ...checkDescendingPath(field, value),
    ...errorIf(isReserved, () => invalid(field, value, "must not start with '..'")),
  ];
}

/** A path without a `..` component. */
export function checkNoDotDot(field: string, value: string): FieldErrors {
  return errorIf(value.split("/").includes(".."), () => invalid(field, value, "must not contain '..'"));
}

const ipv4 = /^(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/;

/** Whether the text is an IP address of either family. */
export function isIp(value: string): boolean {
  return ipv4.test(value) || isIpv6(value);
}

/** An IP address of either family, with the API server's message. */
export function checkIp(field: string, value: string): FieldErrors {
  return errorIf(!isIp(value), () =>
    invalid(field, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
  );
}

function isIpv6(value: string): boolean {
  const halves = value.split("::");
  if (halves.length > 2) return false;
  const groups = halves.flatMap((half) => (half === "" ? [] : half.split(":")));
  const last = groups.at(-1) ?? "";
  const count = ipv4.test(last) ? groups.length + 1 : groups.length;
  const hex = ipv4.test(last) ? groups.slice(0, -1) : groups;
  return hex.every((group) => /^[0-9a-fA-F]{1,4}$/.test(group)) && (halves.length === 2 ? count < 8 : count === 8);
}
