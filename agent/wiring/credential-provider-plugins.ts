import type { Clock } from "../../host/clock.ts";
import type { Exec } from "../../host/exec.ts";
import type { Log } from "../../host/log/log.ts";
import type { CreateCredentialProviders } from "../act/images/credential-providers.ts";
import type { Config } from "../config/config.ts";

export interface PluginLoaderOptions {
  readonly exec: Exec;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Returns the maker of the node's credential providers; undefined, and nothing is loaded, if none are configured.
 * The plugins inherit `environment`.
 */
export async function loadCredentialProviderPlugins(
  { credentialProviders: config }: Pick<Config, "credentialProviders">,
  { exec, environment: inherited, clock, log }: PluginLoaderOptions,
): Promise<CreateCredentialProviders | undefined> {
  if (config === undefined) return undefined;
  const { binDir, providers } = config;
  const { createCredentialProviders } = await import("../act/images/credential-providers.ts");
  const environment = Object.fromEntries(
    Object.entries(inherited).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  return (accounts) => createCredentialProviders({ providers, binDir, exec, environment, accounts, clock, log });
}
