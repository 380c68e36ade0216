import type { Container, EnvVar, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "../node-facts.ts";
import { TranslateError } from "../translate-error.ts";
import { emptyDirFolder } from "../volumes/paths.ts";
import type { EnvFile } from "./env-file.ts";

/** Selects a variable of a file in one of the pod's own folders. */
export type FileKeyRef = NonNullable<NonNullable<EnvVar["valueFrom"]>["fileKeyRef"]>;

/** A file that variables are read from, by {@link fileKey}; a text says why it could not be read. */
export type EnvFiles = ReadonlyMap<string, EnvFile | "absent" | { readonly unreadable: string }>;

/** What the value of a variable is read from. */
export interface FileScene {
  readonly pod: Pod;
  readonly files: EnvFiles;
  readonly facts: Pick<NodeFacts, "rootDir">;
}

/** Where a file of variables is: the folder of its volume, relative to the root directory, and its path in there. */
export interface EnvFilePlace {
  readonly key: string;
  readonly folder: string;
  readonly path: string;
}

/** The files that a container's variables are read from, each once. Throws `TranslateError` where a volume is none of the pod's. */
export function envFilesOf(pod: Pod, { env = [] }: Container): readonly EnvFilePlace[] {
  const places = env.flatMap(({ valueFrom }) => {
    const { fileKeyRef } = valueFrom ?? {};
    return fileKeyRef === undefined ? [] : [placeOf(pod, fileKeyRef)];
  });
  return [...new Map(places.map((place) => [place.key, place])).values()];
}

/**
 * The value of one variable of a file; undefined where it is optional, and it or the file is not there. An empty value counts as none, as
 * with the kubelet. Throws `TranslateError` that begins with the kubelet's words, and never says what stands in the file.
 */
export function fileValue({ pod, files, facts }: FileScene, selector: FileKeyRef): string | undefined {
  const { key, folder, path } = placeOf(pod, selector);
  const place = `${facts.rootDir}/${folder}/${path}`;
  const file = files.get(key) ?? "absent";
  const isOptional = selector.optional === true;
  if (file === "absent" && !isOptional) throw configError(`couldn't parse env file: ${place} does not exist`);
  if (file === "absent") return undefined;
  if ("unreadable" in file) throw configError(`couldn't parse env file: ${file.unreadable}`);
  const value = file.variables.get(selector.key);
  if (value === undefined && file.problem !== undefined)
    throw configError(`couldn't parse env file: ${place}: ${file.problem}`);
  if (value?.includes("\0"))
    throw configError(`couldn't parse env file: ${place}: the value of ${selector.key} has a null byte`);
  if (value) return value;
  if (isOptional) return undefined;
  throw configError(
    `environment variable key ${JSON.stringify(selector.key)} not found in file ${JSON.stringify(place)}`,
  );
}

function placeOf({ metadata, spec }: Pod, { volumeName, path }: FileKeyRef): EnvFilePlace {
  const volume = spec.volumes?.find(({ name }) => name === volumeName);
  if (volume?.emptyDir === undefined)
    throw configError(
      volume === undefined
        ? `cannot find the volume ${JSON.stringify(volumeName)} referenced by FileKeyRef`
        : `the volume ${JSON.stringify(volumeName)} referenced by FileKeyRef is no emptyDir`,
    );
  return { key: `${volumeName}/${path}`, folder: emptyDirFolder(metadata.uid ?? "", volumeName), path };
}

function configError(message: string): TranslateError {
  return new TranslateError("CreateContainerConfigError", message);
}
