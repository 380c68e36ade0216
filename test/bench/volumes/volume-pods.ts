import type { PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { benchPod, usualPod } from "../bench-pod.ts";
import type { ApiClient } from "../cluster/api-client.ts";

/** The number of ConfigMaps of a pod with objects, and the number of its Secrets. */
export const OBJECTS = 10;

/** The number of Secrets and ConfigMaps that such a pod refers to, with `kube-root-ca.crt` of its token's volume. */
export const REFERENCES = 2 * OBJECTS + 1;

export const configMapsPath = "/api/v1/namespaces/default/configmaps";
const secretsPath = "/api/v1/namespaces/default/secrets";

/** Where containers have their volumes. */
const mountRoot = "/objects";

const indexes = Array.from({ length: OBJECTS }, (_, at) => at);

/** Creates the objects of {@link podWithObjects}. */
export async function createObjects(api: Pick<ApiClient, "create">, prefix: string): Promise<void> {
  for (const at of indexes) {
    const name = `${prefix}-${at}`;
    await createConfigMap(api, name);
    await api.create(secretsPath, {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name },
      stringData: { key: "value" },
    });
  }
}

/** The paths of all objects that {@link podWithObjects} refers to. */
export const objectPaths = (prefix: string): readonly string[] => [
  `${configMapsPath}/kube-root-ca.crt`,
  ...indexes.flatMap((at) => [`${configMapsPath}/${prefix}-${at}`, `${secretsPath}/${prefix}-${at}`]),
];

export const createConfigMap = (api: Pick<ApiClient, "create">, name: string): Promise<void> =>
  api.create(configMapsPath, { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { key: "value" } });

/** A pod with a token and a volume for each object of {@link createObjects}. */
export function podWithObjects(prefix: string): Partial<PodSpec> {
  const configMaps = indexes.map((at) => ({ name: `map-${at}`, configMap: { name: `${prefix}-${at}` } }));
  const secrets = indexes.map((at) => ({ name: `secret-${at}`, secret: { secretName: `${prefix}-${at}` } }));
  return { ...usualPod, ...withVolumes([...configMaps, ...secrets]) };
}

/** A pod that mounts one ConfigMap. */
export const podWithConfigMap = (name: string): Partial<PodSpec> => withVolumes([{ name: "map", configMap: { name } }]);

/** The directory of that ConfigMap's files, as the container with this process sees it. */
export const mountedConfigMap = (pid: number): string => `/proc/${pid}/root${mountRoot}/map`;

function withVolumes(volumes: NonNullable<PodSpec["volumes"]>): Partial<PodSpec> {
  const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `${mountRoot}/${name}` }));
  const { containers } = benchPod("").spec;
  return { volumes, containers: containers.map((container) => ({ ...container, volumeMounts })) };
}
