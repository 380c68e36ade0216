import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { until } from "../bed/poll-until.ts";
import { podOf } from "./manifest.ts";
import { containerId, linesWith, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

const token = "Bearer only-for-the-server";
let node: Node;
let server: Bun.Server<undefined>;
let answer: () => Response;
/** How often the agent has asked since the answer was changed. */
let asked = 0;
let headers: Headers | undefined;

beforeAll(async () => {
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      asked++;
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
  asked = 0;
});

afterAll(async () => {
  await node.end();
  await server.stop(true);
});

const list = (...pods: readonly Pod[]) => ({ apiVersion: "v1", kind: "PodList", items: pods });

async function askedTwiceMore(): Promise<void> {
  const before = asked;
  await until("two more questions to the server", 10_000, () => asked >= before + 2);
}

test("an empty answer is no pod", async () => {
  await askedTwiceMore();
  expect(await node.pods()).toEqual([]);
});

test("the configured headers are sent", () => {
  expect(headers?.get("authorization")).toBe(token);
  expect(headers?.get("x-rack")).toBe("7, 8");
});

test("a Pod runs beside those of the folder", async () => {
  await node.put(podOf("from-folder"));
  answer = () => Response.json(podOf("web"));
  await node.running("web", "from-folder");
});

test("the same answer again changes nothing", async () => {
  const [before] = await node.running("web");
  await askedTwiceMore();
  expect(containerId((await node.running("web"))[0]!)).toBe(containerId(before!));
});

const refused: readonly (readonly [title: string, answer: () => Response, says: string])[] = [
  ["an error of the server", () => new Response("out of order", { status: 500 }), "the server answered 500"],
  ["garbage", () => new Response(Uint8Array.from({ length: 500 }, (_, at) => (at * 7919) % 256)), "refused"],
  ["a page", () => new Response("<html>\n<p>Please log in: you</p></html>"), "refused"],
  ["a pod without a name", () => Response.json({ ...podOf("x"), metadata: {} }), "metadata.name: Required value"],
  [
    "a list with one bad pod",
    () => Response.json(list(podOf("fine"), podOf("bad", {}, { containers: [] }))),
    "spec.containers",
  ],
];
test.each(refused)("%s is refused once, and the pod runs on", async (_, bad, says) => {
  const [before] = await node.running("web");
  const logged = (await node.log()).length;
  answer = bad;
  await askedTwiceMore();
  const lines = await until("the refusal", 10_000, async () => {
    const found = linesWith((await node.log()).slice(logged), "static pods from the URL refused");
    return found.length > 0 && found;
  });
  await askedTwiceMore();
  expect(linesWith((await node.log()).slice(logged), "static pods from the URL refused")).toEqual(lines);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(says);
  expect((await node.pods()).map(({ name, uid }) => [name, uid])).toContainEqual(["web-berth", before!.uid]);
  expect(containerId((await node.running("web"))[0]!)).toBe(containerId(before!));
});

test("a PodList runs as a whole, and a pod that it no longer has ends", async () => {
  answer = () => Response.json(list(podOf("web"), podOf("second"), podOf("third")));
  await node.running("web", "second", "third");
  answer = () => Response.json(list(podOf("third")));
  await until("two pods to go", 20_000, async () => (await node.pods()).length === 2);
  await node.running("third", "from-folder");
});

test("an empty answer ends all of them, and leaves those of the folder alone", async () => {
  answer = () => new Response("");
  await until("one pod to be left", 20_000, async () => (await node.pods()).length === 1);
  await node.running("from-folder");
});

test("the log tells the URL without user, password and query, and never a header", async () => {
  const log = await node.log();
  expect(log).toContain(`url=http://127.0.0.1:${server.port}/pods`);
  for (const secret of ["let-me-in", "captain", "hidden", "only-for-the-server"]) expect(log).not.toContain(secret);
});
