import { join } from "node:path/posix";
import type { Clock } from "../../host/clock.ts";
import type { Exec } from "../../host/exec.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log.ts";
import type { MakeProviders } from "../act/images/credential-providers.ts";
import type { Config } from "../config/config.ts";
import { StartError } from "../preflight/start-error.ts";

export interface ProgramParts {
  readonly machine: Pick<Files, "stat">;
  readonly exec: Exec;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * What makes the node's credential providers; undefined where it has none, and then nothing of this is loaded. Throws `StartError` where one
 * of the programs cannot be run. They inherit `environment`.
 */
export async function providersOf(
  { credentialProviders: config }: Pick<Config, "credentialProviders">,
  { machine, exec, environment: own, clock, log }: ProgramParts,
): Promise<MakeProviders | undefined> {
  if (config === undefined) return undefined;
  const { binDir, providers } = config;
  for (const { name } of providers) await checkProgram(machine, join(binDir, name));
  const { createCredentialProviders } = await import("../act/images/credential-providers.ts");
  const environment = Object.fromEntries(
    Object.entries(own).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  return (accounts) => createCredentialProviders({ providers, binDir, exec, environment, accounts, clock, log });
}

async function checkProgram(machine: Pick<Files, "stat">, path: string): Promise<void> {
  const found = await machine.stat(path.slice(1)).catch((error: unknown) => {
    if (!(error instanceof FilesError)) throw error;
    throw new StartError(`a credential provider cannot be run: ${error.message}`, { cause: error });
  });
  const cure = "put it there, or take it out of the file of --image-credential-provider-config";
  if (found === undefined) throw new StartError(`a credential provider is missing: there is no ${path}: ${cure}`);
  if (found.kind !== "file" || (found.mode & 0o111) === 0)
    throw new StartError(`a credential provider cannot be run: ${path} is no executable file: ${cure}`);
}
