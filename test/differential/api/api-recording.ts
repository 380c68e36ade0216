import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { builtVersion } from "../../upstream/programs.ts";
import { containerdRelease } from "../bed-settings.ts";
import type { ApiAnswers } from "./compare-answers.ts";

const file = join(import.meta.dirname, "../../golden/kubelet-api/answers.json");

interface ApiRecording {
  readonly kubelet: string;
  readonly containerd: string;
  readonly answers: ApiAnswers;
}

/** The kubelet's answers. Throws an error if they are of another kubelet. */
export async function readApiRecording(kubelet = builtVersion()): Promise<ApiAnswers> {
  const recording = JSON.parse(await readFile(file, "utf8")) as ApiRecording;
  if (recording.kubelet !== kubelet)
    throw new Error(`the answers are of kubelet ${recording.kubelet}, not ${kubelet}: ${howToRecord}`);
  return recording.answers;
}

const howToRecord = "record the kubelet by bun test/differential/api/record-api.ts";

/** Replaces the recording. The values of fields are those of the machine: it has their names only. */
export async function writeApiRecording(answers: ApiAnswers): Promise<void> {
  const withoutValues = Object.entries(answers).map(([name, { values: _values, ...answer }]) => [name, answer]);
  const recording: ApiRecording = {
    kubelet: builtVersion(),
    containerd: containerdRelease,
    answers: Object.fromEntries(withoutValues) as ApiAnswers,
  };
  await writeFile(file, `${JSON.stringify(recording, null, 1)}\n`);
}
