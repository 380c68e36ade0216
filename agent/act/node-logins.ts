import type { Files } from "../../host/files.ts";
import { type LoginsFormat, type RegistryLogins, readLogins } from "../translate/registry-logins.ts";

/** Absolute paths of files with the node's own logins, in the order in which they are looked for. */
export type LoginFiles = readonly (readonly [path: string, format: LoginsFormat])[];

/** The kubelet's limit for such a file. */
const MOST_BYTES = 10 << 20;

/** Where the kubelet looks: below its root directory, where it was started, in its user's home, and in `/`. */
export function loginFiles(rootDir: string, workingDir: string, home: string | undefined): LoginFiles {
  const inHome = (folder: string) => (home === undefined ? [] : [`${home}${folder}`]);
  const folders = [rootDir, workingDir, ...inHome("/.docker"), "/.docker"];
  const legacy = [rootDir, workingDir, ...inHome(""), ""];
  return [
    ...folders.map((folder) => [`${folder}/config.json`, "config.json"] as const),
    ...legacy.map((folder) => [`${folder}/.dockercfg`, ".dockercfg"] as const),
  ];
}

/** The logins of the first of these files that has any to read; none where there is no such file. Never rejects. */
export async function readNodeLogins(machine: Pick<Files, "read">, files: LoginFiles): Promise<RegistryLogins> {
  for (const [path, format] of files) {
    // A file that is not there, or that somebody is just writing, is none: as to the kubelet, the next one counts.
    const text = await machine.read(path.slice(1), MOST_BYTES).catch(() => undefined);
    const logins = text === undefined ? undefined : readLogins(text, format);
    if (logins !== undefined) return logins;
  }
  return [];
}
