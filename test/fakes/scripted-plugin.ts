import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** What a scripted plugin does for one verb; without any it prints nothing and succeeds. */
export interface Answer {
  readonly stdout?: string;
  readonly stderr?: string;
  readonly exitCode?: number;
  /** Lines of its script that run before it prints. */
  readonly before?: string;
}

/** A call that a scripted plugin has got. */
export interface ScriptedCall {
  readonly verb: string;
  readonly plugin: string;
  readonly containerId: string;
  readonly netns: string;
  readonly ifName: string;
  readonly args: string;
  readonly path: string;
  readonly conf: Readonly<Record<string, unknown>>;
}

/** Writes a plugin's binary that answers each verb as its script says, and notes its calls in the same folder. */
export async function writePlugin(
  folder: string,
  type: string,
  answers: Readonly<Record<string, Answer>>,
): Promise<void> {
  const cases = Object.entries(answers).map(
    ([verb, { before = "", stdout = "", stderr = "", exitCode = 0 }]) =>
      `${verb})\n${before}\nprintf %s ${quote(stderr)} >&2\nprintf %s ${quote(stdout)}\nexit ${exitCode};;`,
  );
  const fields = `"verb":"$CNI_COMMAND","plugin":"${type}","containerId":"$CNI_CONTAINERID","netns":"$CNI_NETNS","ifName":"$CNI_IFNAME","args":"$CNI_ARGS","path":"$CNI_PATH"`;
  const script = `#!/bin/sh
conf=$(cat)
printf '%s\\n' "{${fields.replaceAll('"', '\\"')},\\"conf\\":$conf}" >> ${quote(join(folder, "calls"))}
case $CNI_COMMAND in
${cases.join("\n")}
esac
`;
  const path = join(folder, type);
  await writeFile(path, script);
  await chmod(path, 0o755);
}

/** The calls of all scripted plugins of a folder, in their order. */
export async function scriptedCalls(folder: string): Promise<readonly ScriptedCall[]> {
  const text = await readFile(join(folder, "calls"), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    return "";
  });
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as ScriptedCall);
}

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
