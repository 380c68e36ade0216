import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { ApiError } from "../api/api-error.ts";
import { type ContainerLogs, UnreadableLogError } from "../logs/container-logs.ts";
import { DEFAULT_CONTAINER } from "./default-container.ts";
import { answerLogs } from "./local-logs.ts";

const podOf = (namespace: string, name: string, ...containers: readonly string[]): Pod => ({
  metadata: { namespace, name },
  spec: { containers: containers.map((each) => ({ name: each })) },
});
const pods = [podOf("default", "web-node", "a", "b"), podOf("shop", "cart", "a"), podOf("default", "once", "a")];

function ask(pod: string, query = "", send: ContainerLogs["send"] = async (_, response) => response.write("line\n")) {
  const clock = new FakeClock();
  const deps = { containerLogs: { send }, knownPods: () => ({ pods, refused: [], nodeName: "node" }), clock };
  const { signal } = new AbortController();
  const answer = answerLogs(deps, { namespace: "default", pod, query: new URLSearchParams(query), signal });
  return { clock, answer };
}

async function answerOf(...args: Parameters<typeof ask>) {
  const { clock, answer } = ask(...args);
  await clock.advance(200);
  const response = await answer;
  return { status: response.status, text: await response.text() };
}

test("the log of the default container, or of the one that is named", async () => {
  const asked: string[] = [];
  const send: ContainerLogs["send"] = async ({ pod, container, options }, response) => {
    asked.push(`${pod} ${container} ${options.tailLines}`);
    await response.write("line\n");
  };
  expect(await answerOf("web-node", "", send)).toEqual({ status: 200, text: "line\n" });
  await answerOf("web-node", "container=b&tailLines=3", send);
  expect(asked).toEqual(["web-node a undefined", "web-node b 3"]);
});

test.each([
  ["web-node", "", '"a" out of: a, b'],
  ["web-node", "container=a", null],
  ["once", "", null],
])("the answer for %s with the query %p names the container that was not given: %p", async (pod, query, expected) => {
  const { clock, answer } = ask(pod, query);
  await clock.advance(200);
  expect((await answer).headers.get(DEFAULT_CONTAINER)).toBe(expected);
});

const refusals: readonly (readonly [pod: string, query: string, status: number, text: string])[] = [
  ["web", "", 404, 'no pod "web" in namespace "default", did you mean web-node?'],
  ["onec", "", 404, 'no pod "onec" in namespace "default", did you mean once?'],
  ["cart", "", 404, 'no pod "cart" in namespace "default"; it is in another one: -n shop'],
  ["somethingelse", "", 404, 'no pod "somethingelse" in namespace "default"; berth pods lists them'],
  ["web-node", "container=c", 404, 'container "c" not found in pod "web-node"; it has a and b'],
  ["once", "tailLines=x", 400, '{"message": "Unable to decode query."}'],
];
for (const [pod, query, status, text] of refusals)
  test(`the log of ${pod} with "${query}" is refused, and the answer says what would be right`, async () => {
    expect(await answerOf(pod, query)).toEqual({ status, text });
  });

test("a log that cannot be read is an error", async () => {
  for (const [error, status] of [
    [new UnreadableLogError("failed to open"), 500],
    [new ApiError(400, "failed to open"), 400],
  ] as const)
    expect(await answerOf("once", "", () => Promise.reject(error))).toEqual({ status, text: "failed to open" });
});

test("a follower gets its answer's status before the first line, and an answer that breaks off is no whole one", async () => {
  const { promise, reject } = Promise.withResolvers<void>();
  const { clock, answer } = ask("once", "follow=true", async (_, response) => {
    await promise.catch(() => response.write("line\n"));
    throw new Error("the disk is gone");
  });
  await clock.advance(200);
  const response = await answer;
  expect(response.status).toBe(200);
  const text = response.text();
  reject(new Error("later"));
  await expect(text).rejects.toThrow("the disk is gone");
});
