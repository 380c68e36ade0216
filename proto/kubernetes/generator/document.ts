/** The OpenAPI 3 schemas of a Kubernetes API server, reduced to the parts that types are generated from. */
export interface ApiDocument {
  /** The release that the document was taken from, such as `v1.36.3`. */
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
  /** Set for top-level kinds, which have `apiVersion` and `kind`. */
  readonly kinds?: readonly ApiKind[];
}

/** Two API groups use the same name for different types. The type that the agent uses more keeps the short name. */
const nameClashes: Readonly<Record<string, string>> = {
  "io.k8s.api.core.v1.ResourceClaim": "ContainerResourceClaim",
  "io.k8s.api.storage.v1.TokenRequest": "CSITokenRequest",
};

/** `io.k8s.api.core.v1.PodSpec` → `PodSpec`. */
export function shortName(schemaName: string): string {
  return nameClashes[schemaName] ?? schemaName.slice(schemaName.lastIndexOf(".") + 1);
}

/** All schemas by short name, sorted. Throws when two schemas have the same short name. */
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
 * Fields of a kind that are optional in the document, because a client may omit them in requests, but present in every
 * response.
 */
const alwaysPresent: readonly string[] = ["metadata", "spec"];

/** The properties that every object of the schema has. */
export function requiredProperties(schema: ApiSchema): ReadonlySet<string> {
  return new Set([...(schema.required ?? []), ...(schema.kinds === undefined ? [] : alwaysPresent)]);
}
