import { join } from "node:path/posix";
import type { Files } from "../../../host/fs/files.ts";
import {
  type DockerConfigFormat,
  parseDockerConfig,
  type RegistryCredentials,
} from "../../translate/docker-config-format.ts";

/** Absolute paths of the node's Docker config files with registry credentials, in search order. */
export type DockerConfigFiles = readonly (readonly [path: string, format: DockerConfigFormat])[];

/** The kubelet's limit for such a file. */
const MAX_BYTES = 10 << 20;

/**
 * The kubelet's search path: its root directory, its working directory, its user's home and `/`. `workingDir` is
 * undefined if it was deleted, `home` if $HOME is unset.
 */
export function dockerConfigFiles(
  rootDir: string,
  workingDir: string | undefined,
  home: string | undefined,
): DockerConfigFiles {
  const baseDirs = [rootDir, ...(workingDir === undefined ? [] : [workingDir])];
  const homes = [...(home === undefined ? [] : [home]), "/"];
  return [
    ...[...baseDirs, ...homes.map((each) => join(each, ".docker"))].map(fileIn("config.json")),
    ...[...baseDirs, ...homes].map(fileIn(".dockercfg")),
  ];
}

const fileIn = (format: DockerConfigFormat) => (folder: string) => [join(folder, format), format] as const;

/** The credentials of the first of these files that is readable; none if there is no such file. Never rejects. */
export async function readDockerConfigs(
  machine: Pick<Files, "read">,
  files: DockerConfigFiles,
): Promise<RegistryCredentials> {
  for (const [path, format] of files) {
    // Like the kubelet, skips a file that is missing or half written.
    const text = await machine.read(path.slice(1), MAX_BYTES).catch(() => undefined);
    const credentials = text === undefined ? undefined : parseDockerConfig(text, format);
    if (credentials !== undefined) return credentials;
  }
  return [];
}
