import type { Container, Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { shellWord } from "../../../../proto/shell-word.ts";

/** Why a pod does not start, or is not ready, as `berth pods` shows it, and the facts that the text of its cure names. */
export interface CauseInput {
  readonly pod: Pod;
  readonly reason: string;
  readonly message: string;
  /** The container that the cause is about, if it is about one. */
  readonly container: Container | undefined;
  readonly podIP: string;
  /** Where the pod comes from: the path or URL of its manifest, undefined for the API server. */
  readonly manifest: string | undefined;
}

/** What to change, and the commands that show more or change it. */
export interface Cure {
  readonly text: string;
  readonly commands: readonly string[];
}

/** The cure of the causes with such a reason and message. */
export interface CureRule {
  readonly reason: RegExp;
  readonly message?: RegExp;
  /** What else the pod must have; any pod if left out. */
  readonly pod?: (pod: Pod) => boolean;
  readonly cure: (input: CauseInput, match: readonly string[]) => Cure;
}

/** Static pods may run without a cluster. */
export const isStatic = ({ manifest }: CauseInput) => manifest !== undefined;

const isUrl = (manifest: string) => /^https?:/.test(manifest);

/** The cure of a manifest that the agent refuses. `hasPod`: an earlier version of it runs. */
export const correctManifest = (manifest: string, { hasPod }: { readonly hasPod: boolean }): Cure => ({
  text: isUrl(manifest)
    ? "correct the manifest at its URL"
    : `correct the file, or move it out of the folder${hasPod ? ", which ends the pod" : ""}`,
  commands: [openManifest(manifest)],
});

/** The command that opens the manifest in the user's editor, or shows one that comes from a URL. The CLI replaces `$EDITOR` if the variable is not set. */
export const openManifest = (manifest: string) => `${isUrl(manifest) ? "curl" : "$EDITOR"} ${shellWord(manifest)}`;
