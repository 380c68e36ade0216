import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import type { PodList } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { apiCases } from "../../differential/api/api-cases.ts";
import { apiPods, areApiPodsSettled } from "../../differential/api/api-pods.ts";
import { readApiRecording } from "../../differential/api/api-recording.ts";
import { askApi } from "../../differential/api/ask-api.ts";
import { compareWithList, differencesOf, findingsOf, formatRows } from "../../differential/api/compare-answers.ts";
import { knownApiDifferences } from "../../differential/api/known-api-differences.ts";
import { createApiClient } from "../../fakes/api-client.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { type ClusterNode, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("the node's API beside the kubelet's");
/**
 * Requests that the API server's proxy sends on as they are. It has rules of its own for upgrades and for paths that are not
 * clean.
 */
const proxied: readonly Pick<(typeof apiCases)[number], "method" | "target">[] = [
  ...apiCases.filter(
    ({ method, target, headers, user }) =>
      user === "administrator" &&
      headers === undefined &&
      ["GET", "POST"].includes(method) &&
      !/\/\/|\/\.|%/.test(target),
  ),
  // The recorded requests of flagz all have headers.
  { method: "GET", target: "/flagz" },
];
/** The first segments of the paths of all endpoints. */
const ENDPOINTS = [
  ...["attach", "checkpoint", "configz", "containerLogs", "debug", "exec", "flagz", "healthz", "logs", "metrics"],
  ...["pods", "portForward", "run", "runningpods", "stats", "statusz"],
];

describe.skipIf(skip !== undefined)("the node's API beside the kubelet's", () => {
  let cluster: ClusterNode;
  const readPort = async () =>
    (JSON.parse(await readFile(cluster.node.paths.agentConfig, "utf8")) as { readonly port: number }).port;

  beforeAll(async () => {
    cluster = await startClusterNode();
    await cluster.create(apiPods);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  test("it answers every request as the kubelet does, but for differences that are listed with a reason", async () => {
    await pollUntil("the pods of the requests", 120_000, async () => areApiPodsSettled(await cluster.pods()));
    const answers = await askApi(cluster.plane, await readPort());
    const differences = differencesOf(await readApiRecording(), answers);
    expect(formatRows(findingsOf(compareWithList(differences, knownApiDifferences)))).toBe("");
  });

  test("through the API server's proxy every endpoint answers with the same status and first line as directly", async () => {
    const { authority, ca, server } = cluster.plane;
    const pair = authority.issue({ commonName: "administrator", organizations: ["system:masters"] });
    const node = createApiClient({ port: await readPort(), ca: undefined, pair });
    const apiServer = createApiClient({ port: Number(new URL(server).port), ca, pair });
    const prefix = `/api/v1/nodes/${cluster.node.name}/proxy`;
    const different: unknown[] = [];
    for (const { method, target } of proxied) {
      const [directly, byProxy] = [
        await node.request(method, target),
        await apiServer.request(method, prefix + target),
      ];
      // The API server puts its own path in front of links.
      const seen = [byProxy.status, firstLine(byProxy.text.replaceAll(prefix, ""))];
      const expected = [directly.status, firstLine(directly.text)];
      if (!Bun.deepEquals(seen, expected)) different.push({ target: `${method} ${target}`, seen, expected });
    }
    expect(different).toEqual([]);
    const endpoints = new Set(proxied.map(({ target }) => /^\/(\w*)/.exec(target)?.[1]));
    expect([...endpoints]).toEqual(expect.arrayContaining([...ENDPOINTS]));
  });
});

/** The first line without ids, which differ from call to call; a list of pods sorted, since the runtime has no order. */
function firstLine(text: string): unknown {
  const line = (text.split("\n")[0] ?? "").replaceAll(/\b[0-9a-f]{64}\b/g, "ID");
  if (!line.startsWith('{"kind":"PodList"')) return line;
  const { items, ...list } = JSON.parse(line) as PodList;
  return { ...list, items: items.map((item) => JSON.stringify(item)).toSorted() };
}
