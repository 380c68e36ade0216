/** The OpenAPI 3 schemas that a Kubernetes API server serves, reduced to what types are made of. */
export interface ApiDocument {
  /** The release of the API server that the document was taken from, such as `v1.36.3`. */
  readonly version: string;
  readonly schemas: Readonly<Record<string, ApiSchema>>;
}

export interface ApiKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

export interface ApiSchema {
  readonly type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  readonly format?: string;
  readonly ref?: string;
  readonly enum?: readonly string[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, ApiSchema>>;
  readonly items?: ApiSchema;
  readonly additionalProperties?: ApiSchema;
  /** Present on the kinds themselves: an object with `apiVersion` and `kind`. */
  readonly kinds?: readonly ApiKind[];
}

/** Two API groups use the same name for different things; the name that the agent meets more often stays short. */
const clashes: Readonly<Record<string, string>> = {
  "io.k8s.api.core.v1.ResourceClaim": "ContainerResourceClaim",
  "io.k8s.api.storage.v1.TokenRequest": "CSITokenRequest",
};

/** `io.k8s.api.core.v1.PodSpec` → `PodSpec`. */
export function shortName(schemaName: string): string {
  return clashes[schemaName] ?? schemaName.slice(schemaName.lastIndexOf(".") + 1);
}

/** Every schema under its short name, in the order of the names. Throws when two schemas would share one. */
export function schemasByShortName(document: ApiDocument): readonly (readonly [string, ApiSchema])[] {
  const owners = new Map<string, string>();
  for (const name of Object.keys(document.schemas)) {
    const owner = owners.get(shortName(name));
    if (owner !== undefined) throw new Error(`${owner} and ${name} would both be called ${shortName(name)}`);
    owners.set(shortName(name), name);
  }
  return Object.entries(document.schemas)
    .map(([name, schema]) => [shortName(name), schema] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

/**
 * Fields of a kind that the document calls optional, since a client may leave them out when it sends the object, but that
 * every object has that an API server sends.
 */
const alwaysThere: readonly string[] = ["metadata", "spec"];

/** The properties that an object has in any case. */
export function requiredProperties(schema: ApiSchema): ReadonlySet<string> {
  return new Set([...(schema.required ?? []), ...(schema.kinds === undefined ? [] : alwaysThere)]);
}
