import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf } from "./manifest.ts";
import { containerId, linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

const token = "Bearer only-for-the-server";
let node: TestNode;
let server: Bun.Server<undefined>;
let answer: () => Response;
/** The number of the agent's requests since the start of the test. */
let requestCount = 0;
let headers: Headers | undefined;

beforeAll(async () => {
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      requestCount++;
      headers = request.headers;
      return answer();
    },
  });
  answer = () => new Response("");
  node = await startNode({
    configuration: {
      staticPodURL: `http://captain:let-me-in@127.0.0.1:${server.port}/pods?key=hidden`,
      staticPodURLHeader: { Authorization: [token], "X-Rack": ["7", "8"] },
      httpCheckFrequency: "300ms",
    },
  });
});

beforeEach(() => {
  requestCount = 0;
});

afterAll(async () => {
  await node.tearDown();
  await server.stop(true);
});

const list = (...pods: readonly Pod[]) => ({ apiVersion: "v1", kind: "PodList", items: pods });

async function waitForTwoRequests(): Promise<void> {
  const before = requestCount;
  await pollUntil("two more requests to the server", 10_000, () => requestCount >= before + 2);
}

test("an empty response gives no pod", async () => {
  await waitForTwoRequests();
  expect(await node.pods()).toEqual([]);
});

test("the configured headers are sent", () => {
  expect(headers?.get("authorization")).toBe(token);
  expect(headers?.get("x-rack")).toBe("7, 8");
});

test("a Pod from the URL runs beside those of the manifest folder", async () => {
  await node.putManifest(podOf("from-folder"));
  answer = () => Response.json(podOf("web"));
  await node.waitUntilRunning("web", "from-folder");
});

test("an unchanged response changes nothing", async () => {
  const [before] = await node.waitUntilRunning("web");
  await waitForTwoRequests();
  expect(containerId((await node.waitUntilRunning("web"))[0]!)).toBe(containerId(before!));
});

const refused: readonly (readonly [title: string, answer: () => Response, says: string])[] = [
  ["an HTTP error", () => new Response("out of order", { status: 500 }), "the server answered 500"],
  [
    "a response of random bytes",
    () => new Response(Uint8Array.from({ length: 500 }, (_, at) => (at * 7919) % 256)),
    "refused",
  ],
  ["an HTML page", () => new Response("<html>\n<p>Please log in: you</p></html>"), "refused"],
  ["a pod without a name", () => Response.json({ ...podOf("x"), metadata: {} }), "metadata.name: Required value"],
  [
    "a list with one bad pod",
    () => Response.json(list(podOf("fine"), podOf("bad", {}, { containers: [] }))),
    "spec.containers",
  ],
];
test.each(refused)("%s is refused once, and the pod keeps running", async (_, bad, says) => {
  const [before] = await node.waitUntilRunning("web");
  const logged = (await node.log()).length;
  answer = bad;
  await waitForTwoRequests();
  const lines = await pollUntil("the refusal", 10_000, async () => {
    const found = linesContaining((await node.log()).slice(logged), "static pods from the URL refused");
    return found.length > 0 && found;
  });
  await waitForTwoRequests();
  expect(linesContaining((await node.log()).slice(logged), "static pods from the URL refused")).toEqual(lines);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(says);
  expect((await node.pods()).map(({ name, uid }) => [name, uid])).toContainEqual(["web-berth", before!.uid]);
  expect(containerId((await node.waitUntilRunning("web"))[0]!)).toBe(containerId(before!));
});

test("all pods of a PodList run, and a pod that is removed from the list ends", async () => {
  answer = () => Response.json(list(podOf("web"), podOf("second"), podOf("third")));
  await node.waitUntilRunning("web", "second", "third");
  answer = () => Response.json(list(podOf("third")));
  await pollUntil("two pods to go", 20_000, async () => (await node.pods()).length === 2);
  await node.waitUntilRunning("third", "from-folder");
});

test("an empty response ends all pods of the URL and keeps those of the manifest folder", async () => {
  answer = () => new Response("");
  await pollUntil("one pod to be left", 20_000, async () => (await node.pods()).length === 1);
  await node.waitUntilRunning("from-folder");
});

test("the log shows the URL without user, password and query, and no header", async () => {
  const log = await node.log();
  expect(log).toContain(`url=http://127.0.0.1:${server.port}/pods`);
  for (const secret of ["let-me-in", "captain", "hidden", "only-for-the-server"]) expect(log).not.toContain(secret);
});
