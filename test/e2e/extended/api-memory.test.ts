import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import { type Memory, memoryOf } from "../../bench/process-usage.ts";
import { median } from "../../bench/statistics.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { barePod } from "../cluster/api-objects.ts";
import { type ClusterNode, startClusterNode } from "../cluster/node.ts";

setDefaultTimeout(20 * 60_000);

const skip = skipWithoutPrograms("the memory of the node's API");
const STARTS = 5;
/** The size of an agent settles within this time: the garbage of its start is collected. */
const REST_MS = 45_000;
const LIMIT_MB = 3;

describe.skipIf(skip !== undefined)("the node's API without a request", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
    await cluster.create([barePod("rests", {}, { nodeName: "node-a" })]);
    await cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=180s");
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  async function restingMemory(enableServer: boolean): Promise<Memory> {
    await cluster.node.agent.stop();
    await cluster.node.startAgent({ enableServer });
    await pause(REST_MS);
    return await memoryOf(cluster.node.agent.pid);
  }

  test(`needs at most ${LIMIT_MB} MB more than an agent without it`, async () => {
    const samples: { readonly without: Memory; readonly withApi: Memory }[] = [];
    for (let start = 0; start < STARTS; start++)
      samples.push({ without: await restingMemory(false), withApi: await restingMemory(true) });
    const more = (key: keyof Memory) =>
      median(samples.map(({ without, withApi }) => (withApi[key] - without[key]) / 1e6));
    const differences = `more with the API, in MB: PSS ${more("pssBytes").toFixed(1)}, anonymous ${more("anonymousBytes").toFixed(1)}`;
    console.log(differences, JSON.stringify(samples));
    expect(more("pssBytes")).toBeLessThanOrEqual(LIMIT_MB);
  });
});
