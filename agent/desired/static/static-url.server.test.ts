import { afterEach, beforeEach, expect, test } from "bun:test";
import { createClock } from "../../../host/clock.ts";
import { pollUntil } from "../../../test/bed/poll-until.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { ManifestPod } from "../../decide/sources/merge-static.ts";
import { pollStaticUrl } from "./static-url.ts";

/* A real server and the platform's own fetch; static-url.test.ts tests the rest. */

let answer: () => Response;
/** The authorization of each request. */
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
  const apply = async (pods: readonly ManifestPod[]) => {
    offers.push(pods.map(({ pod, source }) => `${pod.metadata.name} by ${source.kind}`).join(", "));
  };
  followed = pollStaticUrl(
    {
      url: `http://127.0.0.1:${server.port}/pods?token=s3cret`,
      headers: { authorization: ["Bearer s3cret"] },
      nodeName: "node",
      checkEveryMs: 5,
      fetch,
      clock: createClock(),
      log,
      isUidInUse: () => false,
      apply,
      reportErrors: () => {},
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
const askedTimes = (count: number) => pollUntil(`${count} questions`, 4000, () => asked.length >= count);

const answers: readonly [sentence: string, answer: () => Response, offer: string][] = [
  ["a Pod is a single pod", json(pod("web")), "web-node by http"],
  [
    "a PodList contains several pods",
    json({
      apiVersion: "v1",
      kind: "PodList",
      items: [pod("web"), { ...pod("db"), kind: undefined, apiVersion: undefined }],
    }),
    "web-node by http, db-node by http",
  ],
  ["an empty PodList contains no pod", json({ apiVersion: "v1", kind: "PodList", items: [] }), ""],
  ["an empty response contains no pod", () => new Response(""), ""],
];
for (const [sentence, first, offer] of answers)
  test(`${sentence}, and the same response again is ignored`, async () => {
    answer = first;
    follow();
    await askedTimes(4);
    expect(offers).toEqual([offer]);
    expect(log.takeLines()).toEqual([]);
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
  ["bytes that are not text", () => new Response(Uint8Array.of(0xff, 0xfe))],
  [
    "a list with one bad pod",
    json({ apiVersion: "v1", kind: "PodList", items: [pod("db"), { ...pod("x"), spec: {} }] }),
  ],
];
for (const [sentence, second] of refused)
  test(`${sentence} keeps the pods of the last good response`, async () => {
    answer = json(pod("web"));
    follow();
    await askedTimes(2);
    answer = second;
    await askedTimes(asked.length + 3);
    answer = json(pod("db"));
    await pollUntil("the next pods", 4000, () => offers.length === 2);
    expect(offers).toEqual(["web-node by http", "db-node by http"]);
  });
