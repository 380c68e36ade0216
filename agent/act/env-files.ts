import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Container, Pod } from "../../proto/kubernetes/gen/types.ts";
import { fromUtf8 } from "../../proto/utf8.ts";
import { parseEnvFile } from "../translate/env/env-file.ts";
import { type EnvFiles, envFilesOf } from "../translate/env/file-key-ref.ts";

const LARGEST_FILE_BYTES = 1024 * 1024;
/** Of all files of one container: more no process can be given anyway. */
const LARGEST_FILES_BYTES = 6 * LARGEST_FILE_BYTES;

/**
 * Reads the files from which variables of a container are taken, as the containers before it have left them: no link that they have made
 * leads out of the volume. Why one cannot be read is told in its place. Throws `TranslateError` where a volume is none of the pod's.
 */
export async function readEnvFiles(root: Files, pod: Pod, container: Container): Promise<EnvFiles> {
  const files = new Map<string, ReturnType<EnvFiles["get"]> & {}>();
  let bytesLeft = LARGEST_FILES_BYTES;
  for (const { key, folder, path } of envFilesOf(pod, container)) {
    try {
      const bytes = await root.readBeneath(folder, path, Math.min(LARGEST_FILE_BYTES, bytesLeft));
      bytesLeft -= bytes.length;
      files.set(key, parseEnvFile(textOf(bytes)));
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      files.set(key, isAbsent(error) ? "absent" : { unreadable: error.message });
    }
  }
  return files;
}

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // What is no UTF-8 keeps its bytes all the same, only more slowly.
    return fromUtf8(bytes);
  }
}

function isAbsent({ code }: FilesError): boolean {
  return code === "ENOENT" || code === "ENOTDIR";
}
