import type { ResourceRequirements } from "../gen/types.ts";
import { HUGE_PAGES_PREFIX, isHugePages, isNativeResource } from "../resource-list.ts";
import { compareQuantities, formatQuantity, type ParsedQuantity, parseQuantity, toScaled } from "../values/quantity.ts";
import { errorIf, type FieldErrors } from "./checks.ts";
import { type FieldError, forbidden, invalid, required, unsupported } from "./field-error.ts";
import { checkQualifiedName } from "./names.ts";

const standard = ["cpu", "memory", "ephemeral-storage"];
const podLevel = ["cpu", "memory"];
const zero = parseQuantity("0");

/** Resources whose requests may be less than their limits. All others cannot be overcommitted. */
function allowsOvercommit(name: string): boolean {
  return isNativeResource(name) && !isHugePages(name);
}

/** Rule: ValidateContainerResourceRequirements. */
export function validateContainerResources(path: string, resources: ResourceRequirements | undefined): FieldErrors {
  return validateResources(path, resources, checkContainerResourceName);
}

/** Pod-level resources. Rule: validatePodResources. */
export function validatePodResources(path: string, resources: ResourceRequirements | undefined): FieldErrors {
  return [
    ...errorIf(resources?.claims, () =>
      forbidden(`${path}.claims`, "claims may not be set for Resources at pod-level"),
    ),
    ...validateResources(path, resources, (field, name) =>
      errorIf(!podLevel.includes(name) && !isHugePages(name), () => unsupported(field, name, podLevel)),
    ),
  ];
}

type CheckName = (field: string, name: string) => FieldErrors;

function validateResources(
  path: string,
  resources: ResourceRequirements | undefined,
  checkName: CheckName,
): FieldErrors {
  const { limits = {}, requests = {} } = resources ?? {};
  const names = [...Object.keys(limits), ...Object.keys(requests)];
  const needsMemory = names.some(isHugePages) && !names.some((name) => podLevel.includes(name));
  return [
    ...validateList(`${path}.limits`, limits, checkName),
    ...validateList(`${path}.requests`, requests, checkName),
    ...Object.entries(requests).flatMap(([name, text]) =>
      compareWithLimit(path, name, parseQuantity(text), limits[name]),
    ),
    ...errorIf(needsMemory, () => forbidden(path, "HugePages require cpu or memory")),
  ];
}

function validateList(field: string, list: Readonly<Record<string, string>>, checkName: CheckName): FieldErrors {
  return Object.entries(list).flatMap(([name, text]) => [
    ...checkName(`${field}[${name}]`, name),
    ...validateAmount(`${field}[${name}]`, name, parseQuantity(text)),
  ]);
}

function validateAmount(field: string, name: string, quantity: ParsedQuantity): readonly FieldError[] {
  const isNegative = compareQuantities(quantity, zero) < 0;
  const isWhole = isNativeResource(name) || quantity.exponent >= 0;
  const pageSize = isHugePages(name) ? name.slice(HUGE_PAGES_PREFIX.length) : undefined;
  return [
    ...errorIf(isNegative, () => invalid(field, formatQuantity(quantity), "must be greater than or equal to 0")),
    ...errorIf(!isWhole, () => invalid(field, formatQuantity(quantity), "must be an integer")),
    ...(pageSize === undefined ? [] : checkPages(field, quantity, pageSize)),
  ];
}

/** The amount must be a multiple of the huge page size. */
function checkPages(field: string, quantity: ParsedQuantity, pageSize: string): FieldErrors {
  if (!/^[1-9]\d{0,8}[KMGTPE]i$/.test(pageSize)) return [invalid(field, pageSize, "must be a size such as 2Mi")];
  const isDivisible = quantity.exponent >= 0 && toScaled(quantity, 0) % toScaled(parseQuantity(pageSize), 0) === 0n;
  return errorIf(!isDivisible, () =>
    invalid(field, formatQuantity(quantity), `must be a multiple of the page size ${pageSize}`),
  );
}

function compareWithLimit(
  path: string,
  name: string,
  request: ParsedQuantity,
  limitText: string | undefined,
): FieldErrors {
  if (limitText === undefined)
    return errorIf(!allowsOvercommit(name), () =>
      required(`${path}.limits`, "Limit must be set for non overcommitable resources"),
    );
  const order = compareQuantities(request, parseQuantity(limitText));
  const wrong = (relation: string) =>
    invalid(`${path}.requests`, formatQuantity(request), `must be ${relation} ${name} limit of ${limitText}`);
  if (order !== 0 && !allowsOvercommit(name)) return [wrong("equal to")];
  return errorIf(order > 0, () => wrong("less than or equal to"));
}

function checkContainerResourceName(field: string, name: string): FieldErrors {
  const malformed = checkQualifiedName(field, name);
  if (malformed.length > 0) return malformed;
  const isStandard = standard.includes(name) || isHugePages(name);
  if (!name.includes("/"))
    return errorIf(!isStandard, () => invalid(field, name, "must be a standard resource for containers"));
  const isExtended = isNativeResource(name) || !name.startsWith("requests.");
  return errorIf(!isExtended, () => invalid(field, name, "doesn't follow extended resource name standard"));
}
