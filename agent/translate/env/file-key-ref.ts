import type { Container, EnvVar, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { volumeNamed } from "../../../proto/kubernetes/volumes.ts";
import type { NodeFacts } from "../node-facts.ts";
import { configError } from "../translate-error.ts";
import { emptyDirPath } from "../volumes/paths.ts";
import type { EnvFile } from "./env-file.ts";

/** The API's `fileKeyRef`: one variable of an env file in an emptyDir of the pod. */
export type FileKeyRef = NonNullable<NonNullable<EnvVar["valueFrom"]>["fileKeyRef"]>;

/** The env files of a container by {@link EnvFileLocation.key}. `unreadable` says why a file could not be read. */
export type EnvFiles = ReadonlyMap<string, EnvFile | "absent" | { readonly unreadable: string }>;

/** Everything the value of a `fileKeyRef` is read from. */
export interface FileKeyInput {
  readonly pod: Pod;
  readonly files: EnvFiles;
  readonly facts: Pick<NodeFacts, "rootDir">;
}

/**
 * Where an env file is: the directory of its volume, relative to the kubelet's root directory, and its path in that
 * directory.
 */
export interface EnvFileLocation {
  readonly key: string;
  readonly folder: string;
  readonly path: string;
}

/**
 * Lists the env files that a container refers to, each once. Throws `TranslateError` for a volume that is not an
 * emptyDir of the pod.
 */
export function envFilesOf(pod: Pod, { env = [] }: Container): readonly EnvFileLocation[] {
  const locations = env.flatMap(({ valueFrom }) => {
    const { fileKeyRef } = valueFrom ?? {};
    return fileKeyRef === undefined ? [] : [locationOf(pod, fileKeyRef)];
  });
  return [...new Map(locations.map((location) => [location.key, location])).values()];
}

/**
 * The value of one variable; undefined when the reference is optional and the file or variable does not exist. Like the
 * kubelet, treats an empty value as missing. Throws `TranslateError` with the kubelet's message, which never contains
 * the file's content.
 */
export function fileKeyValue({ pod, files, facts }: FileKeyInput, selector: FileKeyRef): string | undefined {
  const { key, folder, path } = locationOf(pod, selector);
  const hostPath = `${facts.rootDir}/${folder}/${path}`;
  const file = files.get(key) ?? "absent";
  const isOptional = selector.optional === true;
  if (file === "absent" && !isOptional) throw configError(`couldn't parse env file: ${hostPath} does not exist`);
  if (file === "absent") return undefined;
  if ("unreadable" in file) throw configError(`couldn't parse env file: ${file.unreadable}`);
  const value = file.variables.get(selector.key);
  if (value === undefined && file.problem !== undefined)
    throw configError(`couldn't parse env file: ${hostPath}: ${file.problem}`);
  if (value?.includes("\0"))
    throw configError(`couldn't parse env file: ${hostPath}: the value of ${selector.key} has a null byte`);
  if (value) return value;
  if (isOptional) return undefined;
  throw configError(
    `environment variable key ${JSON.stringify(selector.key)} not found in file ${JSON.stringify(hostPath)}`,
  );
}

function locationOf(pod: Pod, { volumeName, path }: FileKeyRef): EnvFileLocation {
  const volume = volumeNamed(pod, volumeName);
  if (volume?.emptyDir === undefined)
    throw configError(
      volume === undefined
        ? `cannot find the volume ${JSON.stringify(volumeName)} referenced by FileKeyRef`
        : `the volume ${JSON.stringify(volumeName)} referenced by FileKeyRef is not an emptyDir`,
    );
  return { key: `${volumeName}/${path}`, folder: emptyDirPath(pod.metadata.uid ?? "", volumeName), path };
}
