import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Container, Pod } from "../../proto/kubernetes/gen/types.ts";
import { fromUtf8 } from "../../proto/utf8.ts";
import { parseEnvFile } from "../translate/env/env-file.ts";
import { type EnvFiles, envFilesOf } from "../translate/env/file-key-ref.ts";

const MAX_FILE_BYTES = 1024 * 1024;
/** For all files of one container together; the kernel accepts no larger environment anyway. */
const MAX_TOTAL_BYTES = 6 * MAX_FILE_BYTES;

/**
 * Reads the files that a container's `fileKeyRef` variables refer to. Init containers wrote them, so symlinks that lead
 * out of the volume are not followed. A file that cannot be read is returned as `absent` or `unreadable`. Throws
 * `TranslateError` if the pod has no such volume.
 */
export async function readEnvFiles(root: Files, pod: Pod, container: Container): Promise<EnvFiles> {
  const files = new Map<string, ReturnType<EnvFiles["get"]> & {}>();
  let bytesLeft = MAX_TOTAL_BYTES;
  for (const { key, folder, path } of envFilesOf(pod, container)) {
    try {
      const bytes = await root.readBeneath(folder, path, Math.min(MAX_FILE_BYTES, bytesLeft));
      bytesLeft -= bytes.length;
      files.set(key, parseEnvFile(decodeText(bytes)));
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      files.set(key, isAbsent(error) ? "absent" : { unreadable: error.message });
    }
  }
  return files;
}

function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // The slower decoder keeps the bytes of files that are not UTF-8.
    return fromUtf8(bytes);
  }
}

function isAbsent({ code }: FilesError): boolean {
  return code === "ENOENT" || code === "ENOTDIR";
}
