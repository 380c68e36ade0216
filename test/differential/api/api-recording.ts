import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { builtVersion } from "../../upstream/programs.ts";
import { referenceSettings } from "../../upstream/reference-kubelet.ts";
import { containerdRelease } from "../bed-settings.ts";
import { apiCases, LOGS_FILE, LOGS_FOLDER } from "./api-cases.ts";
import { apiPods } from "./api-pods.ts";
import type { ApiAnswers } from "./compare-answers.ts";

const file = join(import.meta.dirname, "../../golden/kubelet-api/answers.json");

interface ApiRecording {
  readonly kubelet: string;
  readonly containerd: string;
  /** The hash of the requests, and of the bed. */
  readonly hash: string;
  readonly answers: ApiAnswers;
}

/** The settings of the recorded kubelet in which its API differs from that of the differential bed. */
export const apiSettings = { localStorageCapacityIsolation: true, address: "0.0.0.0" };

/** What the answers are valid for, beside the kubelet. It does not see how `ask-api.ts` sends a request and reads its answer. */
const askedOf = {
  cases: apiCases,
  logs: [LOGS_FOLDER, LOGS_FILE],
  pods: apiPods,
  containerdRelease,
  settings: { ...referenceSettings, ...apiSettings },
};

/** The kubelet's answers. Throws an error if they are of another kubelet, of other requests, or of another bed. */
export async function readApiRecording(asked: object = askedOf, kubelet = builtVersion()): Promise<ApiAnswers> {
  const recording = JSON.parse(await readFile(file, "utf8")) as ApiRecording;
  if (recording.kubelet !== kubelet)
    throw new Error(`the answers are of kubelet ${recording.kubelet}, not ${kubelet}: ${howToRecord}`);
  if (recording.hash !== hashOf(asked))
    throw new Error(`the answers are of other requests, pods or settings of the kubelet: ${howToRecord}`);
  return recording.answers;
}

const howToRecord = "record the kubelet by bun test/differential/api/record-api.ts";

/** Replaces the recording. The values of fields are those of the machine: it has their names only. */
export async function writeApiRecording(answers: ApiAnswers): Promise<void> {
  const withoutValues = Object.entries(answers).map(([name, { values: _values, ...answer }]) => [name, answer]);
  const recording: ApiRecording = {
    kubelet: builtVersion(),
    containerd: containerdRelease,
    hash: hashOf(askedOf),
    answers: Object.fromEntries(withoutValues) as ApiAnswers,
  };
  await writeFile(file, `${JSON.stringify(recording, null, 1)}\n`);
}

function hashOf(asked: object): string {
  return createHash("sha256").update(JSON.stringify(asked)).digest("hex").slice(0, 16);
}
