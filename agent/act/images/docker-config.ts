import { join } from "node:path/posix";
import type { Files } from "../../../host/fs/files.ts";
import { type LoginsFormat, type RegistryLogins, readLogins } from "../../translate/registry-credentials.ts";

/** Absolute paths of files with the node's own logins, in the order in which they are looked for. */
export type LoginFiles = readonly (readonly [path: string, format: LoginsFormat])[];

/** The kubelet's limit for such a file. */
const MOST_BYTES = 10 << 20;

/**
 * Where the kubelet looks: below its root directory, where it was started, in its user's home, and in `/`. The place of its start is undefined
 * where it is gone, and the home where nobody says it.
 */
export function loginFiles(rootDir: string, workingDir: string | undefined, home: string | undefined): LoginFiles {
  const first = [rootDir, ...(workingDir === undefined ? [] : [workingDir])];
  const homes = [...(home === undefined ? [] : [home]), "/"];
  return [
    ...[...first, ...homes.map((each) => join(each, ".docker"))].map(fileIn("config.json")),
    ...[...first, ...homes].map(fileIn(".dockercfg")),
  ];
}

const fileIn = (format: LoginsFormat) => (folder: string) => [join(folder, format), format] as const;

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
