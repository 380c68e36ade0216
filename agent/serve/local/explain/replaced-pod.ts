import { type CauseInput, type Cure, openManifest } from "./cure-rule.ts";

/** A rejected pod, and one that has ended, does not start again: it has to be replaced. */
const replaceCommand = ({ manifest, pod: { metadata } }: CauseInput): string =>
  manifest === undefined ? `kubectl -n ${metadata.namespace} delete pod ${metadata.name}` : openManifest(manifest);

/**
 * What follows a change of the node: a changed manifest is a new pod, an unchanged one is not tried again. The agent must have seen that the
 * manifest is gone: a manifest that returns before that is the pod that it has rejected.
 */
const retryText = ({ manifest }: CauseInput) =>
  manifest?.startsWith("/") === true
    ? "; after a change of the node move the manifest out of its folder, and back when berth pods does not show the pod any more"
    : "";

/** A cure by a change of the manifest or of the node. */
export const cureInPodOrNode = (input: CauseInput, text: string, ...commands: readonly string[]): Cure => ({
  text: `${text}${retryText(input)}`,
  commands: [...commands, replaceCommand(input)],
});

/** A cure by a change of the manifest alone. */
export const cureInPod = (input: CauseInput, text: string): Cure => ({ text, commands: [replaceCommand(input)] });
