import { usualCacheDir } from "../../cni/network-facts.ts";
import { shellWord } from "../../proto/shell-word.ts";
import { BIN_DIR, CHAIN_DIR, type CniSettings } from "./settings.ts";

/** The folders that a call of `berth cni` takes. */
export type CallFolders = Pick<CniSettings, "confDir" | "binDirs" | "cacheDir">;

/** What a suggested command has to repeat of this call, so that it finds the same networks, plugins and cache when it is pasted. */
export interface SuggestedCall extends CallFolders {
  /** What the user has typed to run this program. */
  readonly programName: string;
}

/** A command of `berth cni` as a user can paste it: `dist/berth cni gc pods --cache-dir /run/cni`. */
export function suggestedCniCommand(words: readonly string[], call: SuggestedCall): string {
  const flags = flagsOf(call);
  return [call.programName, "cni", ...words, ...flags].map(shellWord).join(" ");
}

/** The flags of these folders as a user can paste them. */
export const suggestedFlags = (folders: CallFolders): string => flagsOf(folders).map(shellWord).join(" ");

function flagsOf({ confDir, binDirs, cacheDir }: CallFolders): readonly string[] {
  const folders = [
    ["--conf-dir", confDir, CHAIN_DIR],
    ["--bin-dir", binDirs.join(":"), BIN_DIR],
    ["--cache-dir", cacheDir, usualCacheDir],
  ] as const;
  return folders.flatMap(([flag, value, byDefault]) => (value === byDefault ? [] : [flag, value]));
}

/** The command that deletes one attachment of a network; the user puts in its container and its interface. */
export const suggestedDeletion = (network: string, call: SuggestedCall): string =>
  suggestedCniCommand(["del", network, "--container-id", "ID", "--ifname", "NAME"], call);
