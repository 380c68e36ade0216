import { join } from "node:path/posix";
import type { Clock } from "../../host/clock.ts";
import type { Exec } from "../../host/exec.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log.ts";
import type { CreateCredentialProviders } from "../act/images/credential-providers.ts";
import type { Config } from "../config/config.ts";
import { StartError } from "../preflight/start-error.ts";

export interface PluginLoaderOptions {
  readonly machine: Pick<Files, "stat">;
  readonly exec: Exec;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Returns the maker of the node's credential providers; undefined, and nothing is loaded, if none are configured.
 * Throws `StartError` if one of the plugins cannot be run. The plugins inherit `environment`.
 */
export async function loadCredentialProviderPlugins(
  { credentialProviders: config }: Pick<Config, "credentialProviders">,
  { machine, exec, environment: inherited, clock, log }: PluginLoaderOptions,
): Promise<CreateCredentialProviders | undefined> {
  if (config === undefined) return undefined;
  const { binDir, providers } = config;
  for (const { name } of providers) await checkPlugin(machine, join(binDir, name));
  const { createCredentialProviders } = await import("../act/images/credential-providers.ts");
  const environment = Object.fromEntries(
    Object.entries(inherited).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  return (accounts) => createCredentialProviders({ providers, binDir, exec, environment, accounts, clock, log });
}

async function checkPlugin(machine: Pick<Files, "stat">, path: string): Promise<void> {
  const found = await machine.stat(path.slice(1)).catch((error: unknown) => {
    if (!(error instanceof FilesError)) throw error;
    throw new StartError(`a credential provider cannot be run: ${error.message}`, { cause: error });
  });
  const remedy = "install it, or remove it from the file of --image-credential-provider-config";
  if (found === undefined) throw new StartError(`a credential provider is missing: ${path} does not exist: ${remedy}`);
  if (found.kind !== "file" || (found.mode & 0o111) === 0)
    throw new StartError(`a credential provider cannot be run: ${path} is not an executable file: ${remedy}`);
}
