import { afterEach, beforeEach, expect, test } from "bun:test";
import { createClock } from "../../../host/clock.ts";
import { until } from "../../../test/bed/poll-until.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { OfferedPod } from "../../decide/sources/merge-static.ts";
import { followStaticUrl } from "./static-url.ts";

/* What is told, and how often, is in static-url.test.ts; here is a real server, asked by the platform's own fetch. */

let answer: () => Response;
/** The authorization that each question came with. */
let asked: (string | null)[];
let server: Bun.Server<undefined>;
let log: FakeLog;
let offers: string[];
let ending: AbortController;
let followed: Promise<void>;
beforeEach(() => {
  asked = [];
  offers = [];
  log = new FakeLog();
  ending = new AbortController();
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      asked.push(request.headers.get("authorization"));
      return answer();
    },
  });
});
afterEach(async () => {
  ending.abort();
  await followed;
  await server.stop(true);
});

function follow(): void {
  const offer = async (pods: readonly OfferedPod[]) => {
    offers.push(pods.map(({ pod, source }) => `${pod.metadata.name} by ${source.kind}`).join(", "));
  };
  followed = followStaticUrl(
    {
      url: `http://127.0.0.1:${server.port}/pods?token=s3cret`,
      headers: { authorization: ["Bearer s3cret"] },
      nodeName: "node",
      checkEveryMs: 5,
      fetch,
      clock: createClock(),
      log,
      offer,
      refuse: () => {},
    },
    ending.signal,
  );
}

const pod = (name: string) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { containers: [{ name: "a", image: "i" }] },
});
const json = (value: unknown) => () => Response.json(value);
const askedTimes = (count: number) => until(`${count} questions`, 4000, () => asked.length >= count);

const answers: readonly [sentence: string, answer: () => Response, offer: string][] = [
  ["a Pod is one pod", json(pod("web")), "web-node by http"],
  [
    "a PodList is all of its pods",
    json({
      apiVersion: "v1",
      kind: "PodList",
      items: [pod("web"), { ...pod("db"), kind: undefined, apiVersion: undefined }],
    }),
    "web-node by http, db-node by http",
  ],
  ["an empty PodList is no pod", json({ apiVersion: "v1", kind: "PodList", items: [] }), ""],
  ["an empty answer is no pod", () => new Response(""), ""],
];
for (const [sentence, first, offer] of answers)
  test(`${sentence}, offered once however often it is answered`, async () => {
    answer = first;
    follow();
    await askedTimes(4);
    expect(offers).toEqual([offer]);
    expect(log.told()).toEqual([]);
  });

test("the header is sent, and neither it nor the query is ever logged", async () => {
  answer = () => new Response("no", { status: 403 });
  follow();
  await askedTimes(3);
  expect(asked[0]).toBe("Bearer s3cret");
  expect(log.lines.length).toBeGreaterThan(0);
  expect(Bun.inspect(log.lines)).not.toContain("s3cret");
});

const refused: readonly [sentence: string, answer: () => Response][] = [
  ["an error of the server", () => Response.json(pod("bad"), { status: 500 })],
  ["garbage", () => new Response("<html>{")],
  ["bytes that are no text", () => new Response(Uint8Array.of(0xff, 0xfe))],
  [
    "a list with one bad pod",
    json({ apiVersion: "v1", kind: "PodList", items: [pod("db"), { ...pod("x"), spec: {} }] }),
  ],
];
for (const [sentence, second] of refused)
  test(`${sentence} leaves what was asked for before`, async () => {
    answer = json(pod("web"));
    follow();
    await askedTimes(2);
    answer = second;
    await askedTimes(asked.length + 3);
    answer = json(pod("db"));
    await until("the next pods", 4000, () => offers.length === 2);
    expect(offers).toEqual(["web-node by http", "db-node by http"]);
  });
