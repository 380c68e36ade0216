/**
 * Generates proto/kubernetes/openapi.json from a running API server:
 *
 *   KUBE_TOKEN=… bun test/upstream/openapi.ts https://127.0.0.1:6443 [ca.crt] > proto/kubernetes/openapi.json
 *
 * The token needs read access to /openapi/v3 and /version. Descriptions, defaults and all types that the kinds below do
 * not refer to are omitted.
 */
import { readFileSync } from "node:fs";
import type { ApiDocument, ApiKind, ApiSchema } from "../../proto/kubernetes/generator/document.ts";

/** For the path of each API group version, the types that the agent reads or writes. */
const roots: Readonly<Record<string, readonly string[]>> = {
  "api/v1": [
    "io.k8s.api.authentication.v1.TokenRequest",
    "io.k8s.api.core.v1.ConfigMapList",
    "io.k8s.api.core.v1.Event",
    "io.k8s.api.core.v1.Namespace",
    "io.k8s.api.core.v1.NodeList",
    "io.k8s.api.core.v1.PersistentVolume",
    "io.k8s.api.core.v1.PersistentVolumeClaim",
    "io.k8s.api.core.v1.PodList",
    "io.k8s.api.core.v1.SecretList",
    "io.k8s.api.core.v1.ServiceAccount",
    "io.k8s.api.core.v1.ServiceList",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
  ],
  "apis/authentication.k8s.io/v1": ["io.k8s.api.authentication.v1.TokenReview"],
  "apis/authorization.k8s.io/v1": ["io.k8s.api.authorization.v1.SubjectAccessReview"],
  "apis/certificates.k8s.io/v1": ["io.k8s.api.certificates.v1.CertificateSigningRequest"],
  "apis/coordination.k8s.io/v1": ["io.k8s.api.coordination.v1.Lease"],
  "apis/node.k8s.io/v1": ["io.k8s.api.node.v1.RuntimeClassList"],
  "apis/resource.k8s.io/v1": ["io.k8s.api.resource.v1.ResourceClaim", "io.k8s.api.resource.v1.ResourceSlice"],
  "apis/storage.k8s.io/v1": [
    "io.k8s.api.storage.v1.CSIDriverList",
    "io.k8s.api.storage.v1.CSINode",
    "io.k8s.api.storage.v1.VolumeAttachment",
  ],
};

/** The fields of an OpenAPI v3 schema that this generator reads. */
interface ServedSchema {
  readonly type?: NonNullable<ApiSchema["type"]>;
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, ServedSchema>>;
  readonly items?: ServedSchema;
  readonly additionalProperties?: ServedSchema;
  readonly allOf?: readonly ServedSchema[];
  readonly $ref?: string;
  readonly "x-kubernetes-group-version-kind"?: readonly ApiKind[];
}

function refOf(schema: ServedSchema): string | undefined {
  const only = schema.allOf?.length === 1 ? schema.allOf[0]?.$ref : undefined;
  return (schema.$ref ?? only)?.replace("#/components/schemas/", "");
}

/** The group, version and kind of a type. Types such as DeleteOptions list one kind per group and get none. */
function kindsOf(schema: ServedSchema): readonly ApiKind[] | undefined {
  const kinds = schema["x-kubernetes-group-version-kind"];
  const only = kinds?.length === 1 ? kinds[0] : undefined;
  return only && [{ group: only.group, version: only.version, kind: only.kind }];
}

function reduce(schema: ServedSchema): ApiSchema {
  const ref = refOf(schema);
  const kinds = kindsOf(schema);
  const required = [...(schema.required ?? [])].sort();
  const properties = Object.entries(schema.properties ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    ...(ref !== undefined && { ref }),
    ...(schema.type !== undefined && { type: schema.type }),
    ...(schema.format !== undefined && { format: schema.format }),
    ...(schema.enum !== undefined && { enum: [...schema.enum].sort() }),
    ...(kinds !== undefined && { kinds }),
    ...(required.length > 0 && { required }),
    ...(schema.items !== undefined && { items: reduce(schema.items) }),
    ...(schema.additionalProperties !== undefined && { additionalProperties: reduce(schema.additionalProperties) }),
    ...(properties.length > 0 && {
      properties: Object.fromEntries(properties.map(([name, property]) => [name, reduce(property)])),
    }),
  };
}

function refsIn(schema: ApiSchema): readonly string[] {
  const parts = [...Object.values(schema.properties ?? {}), schema.items, schema.additionalProperties];
  return [schema.ref, ...parts.flatMap((part) => part && refsIn(part))].filter((ref) => ref !== undefined);
}

/** Formats the document as biome does: lists of strings on one line where they fit. */
function formatJson(document: ApiDocument): string {
  return JSON.stringify(document, null, 2).replaceAll(
    /^( *"\w+": )\[\s+([^[\]{}]+?)\s+\](,?)$/gm,
    (text, key, values, comma) => {
      const line = `${key}[${values.replaceAll(/\s*\n\s*/g, " ")}]${comma}`;
      return line.length <= 120 ? line : text;
    },
  );
}

async function main(server: string, caFile: string | undefined): Promise<void> {
  const get = async (path: string): Promise<unknown> => {
    const response = await fetch(`${server}/${path}`, {
      headers: { Authorization: `Bearer ${process.env["KUBE_TOKEN"] ?? ""}` },
      tls: caFile === undefined ? { rejectUnauthorized: false } : { ca: readFileSync(caFile) },
    });
    if (!response.ok) throw new Error(`GET ${server}/${path}: ${response.status} ${response.statusText}`);
    return response.json();
  };
  const schemas = new Map<string, ApiSchema>();
  for (const [path, names] of Object.entries(roots)) {
    const { components } = (await get(`openapi/v3/${path}`)) as {
      components: { schemas: Record<string, ServedSchema> };
    };
    const pending = [...names];
    for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
      if (schemas.has(name)) continue;
      const served = components.schemas[name];
      if (served === undefined) throw new Error(`${server}/openapi/v3/${path} does not know ${name}`);
      const reduced = reduce(served);
      schemas.set(name, reduced);
      pending.push(...refsIn(reduced));
    }
  }
  const { gitVersion } = (await get("version")) as { gitVersion: string };
  const sorted = [...schemas].sort(([a], [b]) => (a < b ? -1 : 1));
  const document: ApiDocument = { version: gitVersion, schemas: Object.fromEntries(sorted) };
  process.stdout.write(`${formatJson(document)}\n`);
}

const [server, caFile] = process.argv.slice(2);
if (server === undefined) throw new Error("usage: KUBE_TOKEN=… bun test/upstream/openapi.ts <server URL> [CA file]");
await main(server, caFile);
