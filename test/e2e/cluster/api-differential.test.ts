import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pollUntil } from "../../bed/poll-until.ts";
import { apiCases, nameOf } from "../../differential/api/api-cases.ts";
import { apiPods, areApiPodsSettled } from "../../differential/api/api-pods.ts";
import { askApi, type ComparedAnswer, differencesOf } from "../../differential/api/ask-api.ts";
import { knownApiDifferences } from "../../differential/api/known-api-differences.ts";
import { BUILD_TIMEOUT_MS, builtVersion, skipWithoutPrograms } from "../../upstream/programs.ts";
import { type ClusterNode, startClusterNode } from "./node.ts";

setDefaultTimeout(240_000);

const skip = skipWithoutPrograms("the node's API beside the kubelet's");
type Answers = Readonly<Record<string, ComparedAnswer>>;

describe.skipIf(skip !== undefined)("the node's API beside the kubelet's", () => {
  let cluster: ClusterNode;
  let recording: { readonly kubelet: string; readonly answers: Answers };
  beforeAll(async () => {
    const file = join(import.meta.dirname, "../../golden/kubelet-api/answers.json");
    recording = JSON.parse(await readFile(file, "utf8")) as typeof recording;
    cluster = await startClusterNode();
    await cluster.create(apiPods);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  test("the recording is of this kubelet and of these requests", () => {
    expect(recording.kubelet).toBe(builtVersion());
    expect(Object.keys(recording.answers)).toEqual(apiCases.map(nameOf));
  });

  test("it answers every request as the kubelet does, but for differences that are listed with a reason", async () => {
    await pollUntil("the pods of the requests", 120_000, async () => areApiPodsSettled(await cluster.pods()));
    const { port } = JSON.parse(await readFile(cluster.node.paths.agentConfig, "utf8")) as { readonly port: number };
    const answers = await askApi(cluster.plane, port);
    const differences = differencesOf(recording.answers, answers);
    const known = new Set(knownApiDifferences.flatMap(({ differences: each }) => each));
    const unknown = differences.filter((difference) => !known.has(difference));
    for (const name of new Set(unknown.map((each) => each.slice(0, each.lastIndexOf(": ")))))
      console.log(name, "\n kubelet:", recording.answers[name], "\n berth:", answers[name]);
    expect(unknown).toEqual([]);
    expect([...known].filter((difference) => !differences.includes(difference))).toEqual([]);
  });
});
