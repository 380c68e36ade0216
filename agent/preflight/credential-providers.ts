import { join } from "node:path/posix";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Config } from "../config/config.ts";
import { StartError } from "./start-error.ts";

const EXECUTABLE = 0o111;

/** Refuses to start if a configured credential provider plugin cannot be run. Throws `StartError`. */
export async function checkCredentialProviders(
  { credentialProviders }: Pick<Config, "credentialProviders">,
  hostFiles: Pick<Files, "stat">,
): Promise<void> {
  if (credentialProviders === undefined) return;
  const { binDir, providers } = credentialProviders;
  for (const { name } of providers) await checkPlugin(hostFiles, join(binDir, name));
}

async function checkPlugin(hostFiles: Pick<Files, "stat">, path: string): Promise<void> {
  const found = await hostFiles.stat(path.slice(1)).catch((error: unknown) => {
    if (!(error instanceof FilesError)) throw error;
    throw new StartError(`a credential provider cannot be run: ${error.message}`, { cause: error });
  });
  const remedy = "install it, or remove it from the file of --image-credential-provider-config";
  if (found === undefined) throw new StartError(`a credential provider is missing: ${path} does not exist: ${remedy}`);
  if (found.kind !== "file" || (found.mode & EXECUTABLE) === 0)
    throw new StartError(`a credential provider cannot be run: ${path} is not an executable file: ${remedy}`);
}
